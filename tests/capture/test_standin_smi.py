"""The command nvidia-smi of the stand-in GPU."""

import shutil
import subprocess

import pytest

from kernellab.capture.standin_gpu import standin_gpu
from kernellab.capture.standin_smi import use_nvidia_smi


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has its own")
def test_nvidia_smi_answers_for_the_stand_in():
    gpu = standin_gpu("sm_90")
    with use_nvidia_smi(gpu):
        assert gpu.name in subprocess.check_output(["nvidia-smi", "-L"], text=True)
        query = ["nvidia-smi", "--query-gpu=name,compute_cap,power.draw", "--format=csv,noheader"]
        assert subprocess.check_output(query, text=True).strip() == f"{gpu.name}, 9.0, [N/A]"
        assert subprocess.run(["nvidia-smi"], capture_output=True).returncode == 0
    assert shutil.which("nvidia-smi") is None
