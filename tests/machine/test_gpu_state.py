"""Whether a GPU still works, told by calls that fail once or every time; no GPU is needed."""

import pytest
import torch

from kernellab.machine.gpu_state import gpu_is_dead

GPU = torch.device("cuda", 0)


class Gpu:
    """Stands in for a GPU at which the first checked calls fail."""

    def __init__(self, failures):
        self.failures = failures

    def synchronize(self, device):
        pass

    def zeros(self, size, device):
        self.failures -= 1
        if self.failures >= 0:
            raise RuntimeError("CUDA error: invalid configuration argument")
        return torch.ones(size) - 1


@pytest.mark.parametrize(("failures", "dead"), [(0, False), (1, False), (100, True)])
def test_an_error_that_a_refused_launch_left_behind_is_no_dead_gpu(monkeypatch, failures, dead):
    gpu = Gpu(failures)
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch, "zeros", gpu.zeros)
    assert gpu_is_dead(GPU) is dead
    assert gpu_is_dead(torch.device("cpu")) is False
