"""The MLP: its ranges, and that it trains."""

import torch

import kernellab as kl
from kernellab.profiler.schedule import Schedule
from kernellab.profiler.session import Session
from kernellab.workloads.mlp import train
from kernellab.workloads.mlp_setup import MlpSetup
from support.recordings import OPERATORS_ONLY, names_in


def test_the_mlp_is_captured_from_step_11_with_all_its_ranges(tmp_path):
    setup = MlpSetup(dim=8, layers=8, batch=4, steps=100, optimizer="adam", rate="cosine", data=True)
    session = Session(tmp_path, "mlp", Schedule(10, 1, 89), options=OPERATORS_ONLY, steps_in_trace=True)
    session.start()
    result = train(setup)
    session.stop()
    names = names_in(session)
    assert [name for name in names if name.startswith("step_")] == [f"step_{i}" for i in range(11, 100)]
    for name in ("forward", "backward", "optimizer_step", "layer_0", "layer_7"):
        assert names.count(name) == 89
    assert "layer_8" not in names
    assert result.peak_bytes > 0


def test_run_mlp_trains_with_and_without_an_optimizer():
    torch.manual_seed(0)
    assert kl.run_mlp(8, 2, 4, 3).num_steps == 3
    short, long = kl.run_mlp(8, 2, 4, 1, use_optimizer=True), kl.run_mlp(8, 2, 4, 60, use_optimizer=True)
    assert long.loss < short.loss
