"""The timing engine on a GPU: what it catches, its timers, its passes."""

import pytest
import torch

pytestmark = [pytest.mark.gpu, pytest.mark.clocked]


def test_the_panel_orders_the_timers_and_names_the_regime(klab):
    seen = klab(
        "bench", "gelu", "--shape", "256x4096", "--dtype", "float32", "--impl", "torch,triton", "--panel", "--json"
    )
    assert seen.code == 0, seen.err
    triton = seen.result("triton")
    times = {(t["timer"], t["cache"]): t["samples_us"] for t in triton["times"]}
    assert set(times) == {
        *(
            ("events", "cold"),
            ("events", "warm"),
            ("graph", "cold"),
            ("kernel", "cold"),
            ("host", "warm"),
            ("launch", "warm"),
        )
    }
    median = {key: sorted(samples)[len(samples) // 2] for key, samples in times.items()}
    assert median["kernel", "cold"] < median["events", "cold"] < median["host", "warm"]
    assert median["events", "warm"] < median["events", "cold"]
    assert {"launch-bound", "L2-resident"} <= {regime["name"] for regime in triton["derived"]["regime"]}
    entry = triton["times"][0]
    assert entry["calls"] > 8
    assert {"sm_mhz", "mem_mhz", "power_w", "temp_c", "throttle"} <= set(entry["telemetry"])


def test_backward_is_timed_and_verified(klab):
    args = ("--pass", "forward,backward,both", "--shape", "1024x4096", "--dtype", "float32", "--seconds", "0.2")
    seen = klab("bench", "gelu", "--impl", "manual,torch,triton", *args, "--json")
    assert seen.code == 0, seen.out[-3000:]
    own_op = seen.result("torch")
    passes = own_op["derived"]["passes"]
    assert passes["both"]["time"]["median_us"] > passes["backward"]["time"]["median_us"] > 0
    assert own_op["memory"]["backward"]["allocated_bytes"] > 0
    own_kernels = seen.result("triton")
    assert own_kernels["gradients"]["status"] == "ok"
    assert set(own_kernels["derived"]["passes"]) == {"forward", "backward", "both"}


def test_running_out_of_memory_reports_how_much_is_needed(klab, tmp_path):
    total = torch.cuda.mem_get_info()[1]
    (tmp_path / "big.py").write_text(
        "import torch, kernellab as kl\n"
        '@kl.op(cases=kl.cases(shape=[(64, 64)], dtype=["float32"]))\n'
        "def f(x):\n    return x * 2\n"
        '@f.impl("python-big")\n'
        f"def _(x):\n    return x * 2 + torch.empty({total}, device=x.device).sum()\n"
    )
    seen = klab("bench", "big.py", "--impl", "python-big", "--json")
    check = seen.result("python-big")["check"]
    assert (seen.code, check["status"]) == (1, "oom")
    assert check["needed_bytes"] >= 3.99 * total  # torch reports it in GiB with two digits
    assert "needs at least" in check["reason"]
