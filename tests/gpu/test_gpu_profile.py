"""`klab profile` on a GPU."""

import pytest
import torch

import kernellab as kl
from kernellab.workloads.mlp import train
from kernellab.workloads.mlp_setup import MlpSetup

pytestmark = pytest.mark.gpu


def test_the_mlp_shows_89_captured_steps_of_8_layers(klab):
    ran = klab("profile", "mlp", "--dim", "1024", "--layers", "8", "--batch", "128", "--steps", "100", "--json")
    assert ran.code == 0, ran.err
    document = ran.record
    assert document["summary"]["on_gpu"]
    assert document["summary"]["steps"] == 89
    layers = [row for row in document["ranges"] if row["name"].startswith("layer_")]
    assert [layer["name"] for layer in layers] == [f"layer_{number}" for number in range(8)]
    assert all(layer["gpu_us"] > 0 for layer in layers)
    assert document["collected"][0]["plain_step_us"] > 0
    assert document["collected"][0]["trained"]["peak_bytes"] > 8 * 1024 * 1024 * 4


def test_the_capture_of_nvidias_tools_starts_and_stops_once(monkeypatch):
    calls = []
    cudart = torch.cuda.cudart()

    class RecordingCudart:
        def __getattr__(self, name):
            if name.startswith("cudaProfiler"):
                return lambda: calls.append(name)
            return getattr(cudart, name)

    monkeypatch.setattr(torch.cuda, "cudart", RecordingCudart)
    train(MlpSetup(8, 1, 4, 14))
    assert calls == ["cudaProfilerStart", "cudaProfilerStop"]


def test_profile_in_one_call_contains_kernels(tmp_path):
    x = torch.randn(1024, 1024, device="cuda")
    profile = kl.profile("square", lambda: x.square(), with_stack=True, folder=str(tmp_path))
    assert profile.document["summary"]["on_gpu"]
    assert profile.document["kernels"]
    assert (tmp_path / "stacks_square.svg").exists()


def test_ranges_name_the_kernels_of_backward(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).cuda()
    x = torch.randn(8, 64, device="cuda")
    with kl.auto_ranges(model):
        profile = kl.profile("model", lambda: model(x).sum().backward(), folder=str(tmp_path))
    names = {row["name"] for row in profile.document["ranges"]}
    assert {"0", "1", "0.backward", "1.backward"} <= names
