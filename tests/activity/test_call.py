"""What a call does besides the op, counted from one profiled call."""

import gzip
import json
import subprocess
import sys

import pytest
import torch

from kernellab.activity import call as module
from kernellab.activity.call import remarks_on
from kernellab.traces import kineto
from support.activity import call_activity
from support.klab import HERE, klab_env

CPU = torch.device("cpu")


def test_an_ordinary_call_allocates_its_result_without_a_remark():
    x = torch.ones(1000, 1000)
    activity = call_activity(lambda: torch.square(x), CPU)
    assert activity["device"] == "cpu"
    assert activity["host_us"] > 0
    assert activity["allocations"]["count"] >= 1
    assert 4_000_000 <= activity["allocations"]["bytes"] < 4_100_000
    assert activity["random"] == {"count": 0, "ops": [], "share": 0.0, "of": "host"}
    assert "kernels" not in activity
    assert remarks_on(activity) == []
    assert json.loads(json.dumps(activity)) == activity


def test_an_empty_call_has_no_activity():
    activity = call_activity(lambda: None, CPU)
    assert activity["allocations"]["count"] == activity["random"]["count"] == 0


@pytest.mark.clocked
@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randn(500, 500),
        lambda x: torch.rand_like(x),
        lambda x: torch.empty(500, 500).uniform_(),
        lambda x: torch.nn.functional.dropout(x),
        lambda x: torch.randperm(250_000),
        lambda x: torch.normal(x, 1.0),
        lambda x: torch.randint(0, 9, (500, 500)),
    ],
)
def test_random_numbers_are_reported_with_their_share(draw):
    x = torch.rand(500, 500)
    activity = call_activity(lambda: draw(x), CPU)
    assert activity["random"]["count"] == 1, activity
    assert 0.05 < activity["random"]["share"] <= 1
    assert remarks_on(activity) == [
        f"draws random numbers: 1 op, {100 * activity['random']['share']:.0f} % of the time"
    ]


def test_dropout_that_draws_nothing_gets_no_remark():
    x = torch.rand(500, 500)
    activity = call_activity(lambda: torch.nn.functional.dropout(x, training=False), CPU)
    assert remarks_on(activity) == []


def test_the_number_of_calls_is_respected():
    calls = []
    call_activity(lambda: calls.append(1), CPU)
    assert len(calls) == 3
    call_activity(lambda: calls.append(1), CPU, calls=1)
    assert len(calls) == 4


def test_a_compiled_call_is_counted():
    x = torch.ones(300, 300)
    noisy = torch.compile(lambda x: torch.rand_like(x) + x)
    noisy(x)
    assert call_activity(lambda: noisy(x), CPU)["random"]["count"] >= 1


def test_the_profiler_writes_nothing_to_the_terminal():
    code = (
        "import torch\nfrom kernellab.activity.call import profile_call\n"
        "profile_call(lambda: torch.ones(3) + 1, torch.device('cpu'))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, env=klab_env(), capture_output=True, text=True)
    assert done.stdout == ""
    assert "profiler_start" not in done.stderr
    assert "Completed Stage" not in done.stderr


# On a GPU, from events as the profiler writes them -----------------------------------------------------


def host(name, ts, dur, number=0, correlation=None, cat="cpu_op"):
    args = {"External id": number} if correlation is None else {"External id": number, "correlation": correlation}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 5, "tid": 7, "args": args}


def runtime(name, ts, dur, correlation, number=0):
    return host(name, ts, dur, number, correlation, cat="cuda_runtime")


def gpu(name, ts, dur, correlation, number=0, cat="kernel", **more):
    args = {"External id": number, "correlation": correlation, "device": 0, "stream": 7, **more}
    return {"ph": "X", "cat": cat, "name": name, "ts": ts, "dur": dur, "pid": 0, "tid": 7, "args": args}


def memory(ts, size):
    args = {"Bytes": size, "Device Type": 1, "Device Id": 0}
    return {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": ts, "pid": 5, "tid": 7, "args": args}


@pytest.fixture
def profiled(monkeypatch):
    """The activity of a call whose profiler has written these events."""

    def activity_of(events, segments=0):
        trace = kineto.from_document({"traceEvents": events})
        assert trace.notes == []
        monkeypatch.setattr(module, "_profile", lambda *_: (trace, segments))
        return call_activity(lambda: None, torch.device("cuda"))

    return activity_of


RANDOM_KERNEL = "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4>"
TRACE = [
    {"ph": "M", "name": "process_name", "ts": 0.0, "args": {"name": "python"}},
    # A call before the last is not counted.
    host(module._CALL, 0, 100, cat="user_annotation"),
    host("aten::randn", 10, 50, 1),
    memory(20, 100),
    host(module._CALL, 1000, 200, 2, cat="user_annotation"),
    host("aten::to", 1010, 60, 3),
    host("aten::copy_", 1020, 50, 4),
    runtime("cudaMemcpyAsync", 1025, 20, 901, 4),
    runtime("cudaStreamSynchronize", 1046, 20, 902, 4),
    gpu("Memcpy HtoD (Pageable -> Device)", 1040, 30, 901, 4, cat="gpu_memcpy", bytes=4096),
    host("aten::randn", 1080, 50, 5),
    host("aten::empty", 1082, 20, 6),
    runtime("cudaMalloc", 1085, 10, 903, 6),
    memory(1096, 2048),
    host("aten::normal_", 1105, 20, 7),
    runtime("cudaLaunchKernel", 1110, 5, 904, 7),
    gpu(RANDOM_KERNEL, 1300, 60, 904, 7),
    host("triton kernel", 1140, 10, 8, cat="user_annotation"),
    runtime("cuLaunchKernel", 1141, 4, 905),
    gpu("add_kernel", 1370, 10, 905, grid=[8, 1, 1], **{"registers per thread": 16, "shared memory": 0}),
    memory(1150, -2048),
    # After the call: the profiler's own end.
    runtime("cudaDeviceSynchronize", 1300, 500, 906),
    gpu("gpu annotation", 1300, 60, 907, cat="gpu_user_annotation"),
]


def test_on_a_gpu_copies_allocations_and_waiting_are_counted(profiled):
    activity = profiled(TRACE, 1)
    assert activity == {
        "device": "cuda",
        "host_us": 200,
        "device_us": 100,
        "allocations": {"count": 1, "bytes": 2048, "share": 0.1, "of": "host"},
        "random": {"count": 1, "ops": ["aten::randn"], "share": 0.6, "of": "GPU"},
        "raw_allocations": {"count": 1, "share": 0.05, "of": "host"},
        "raw_frees": {"count": 0, "share": 0.0, "of": "host"},
        "host_to_device": {"count": 1, "bytes": 4096, "share": 0.3, "of": "GPU"},
        "device_to_host": {"count": 0, "bytes": 0, "share": 0.0, "of": "host"},
        # The copy from pageable memory blocks too: with the synchronisation it is one wait.
        "synchronisations": {"count": 1, "share": 0.2, "of": "host"},
        "kernels": [
            {"name": "Memcpy HtoD (Pageable -> Device)", "us": 30},
            {"name": RANDOM_KERNEL, "us": 60},
            {"name": "add_kernel", "us": 10, "grid": [8, 1, 1], "registers": 16, "shared_bytes": 0},
        ],
        "enclosing": [[("aten::to", 0), ("aten::copy_", 1)], [("aten::randn", 4), ("aten::normal_", 7)], []],
    }
    assert remarks_on(activity) == [
        "draws random numbers: 1 op, 60 % of the GPU's time",
        "copies to the GPU: 1 copy, 30 % of the GPU's time",
        "allocates past torch's cache (cudaMalloc): 1 call, 5 % of the host's time",
        "waits for the GPU: 1 synchronisation, 20 % of the host's time",
    ]


def test_every_call_that_blocks_the_host_is_a_synchronisation(profiled):
    activity = profiled(
        [
            host(module._CALL, 0, 100, cat="user_annotation"),
            runtime("cudaMemcpyAsync", 10, 5, 1),
            gpu("Memcpy HtoD (Pinned -> Device)", 12, 2, 1, cat="gpu_memcpy", bytes=64),
            runtime("cudaMemcpyAsync", 20, 5, 2),
            gpu("Memcpy HtoD (Pageable -> Device)", 22, 2, 2, cat="gpu_memcpy", bytes=64),
            runtime("cudaMemcpy", 30, 5, 3),
            runtime("cudaFree", 40, 5, 4),
            runtime("cuStreamSynchronize", 50, 5, 5),
        ]
    )
    assert activity["synchronisations"] == {"count": 4, "share": 0.2, "of": "host"}


def test_random_kernels_without_an_op_and_allocations_the_profiler_missed_are_counted(profiled):
    activity = profiled(
        [
            host(module._CALL, 0, 100, cat="user_annotation"),
            runtime("cuLaunchKernel", 10, 1, 1),
            runtime("cuLaunchKernel", 20, 1, 2),
            gpu("triton_poi_fused_native_dropout_0", 30, 4, 1),
            gpu("triton_poi_fused_add_1", 40, 6, 2),
        ],
        2,
    )
    assert remarks_on(activity) == [
        "draws random numbers: 1 op, 40 % of the GPU's time",
        "allocates past torch's cache (cudaMalloc): 2 calls, less than 1 % of the host's time",
    ]


def test_part_of_a_trace_from_an_h200_is_read_as_a_call(profiled):
    events = json.loads(gzip.decompress((HERE / "samples" / "kineto-h200.json.gz").read_bytes()))["traceEvents"]
    call = {**host(module._CALL, 3901254849450.0, 700.0, cat="user_annotation"), "pid": 533, "tid": 533}
    activity = profiled([*events, call])
    assert (activity["host_us"], activity["device_us"]) == (700.0, 76.416)
    assert activity["random"] == {
        "count": 2,
        "ops": ["aten::randn"],
        "share": pytest.approx(174.871 / 700),
        "of": "host",
    }
    assert activity["allocations"] == {"count": 0, "bytes": 0, "share": pytest.approx(42.763 / 700), "of": "host"}
    assert activity["synchronisations"]["count"] == activity["raw_allocations"]["count"] == 0
    drawing, *others = activity["kernels"]
    assert len(others) == 3
    assert drawing.pop("name").startswith("void at::native::(anonymous namespace)::distribution_elementwise")
    assert drawing == {
        "us": 5.184, "grid": [1056, 1, 1], "block": [256, 1, 1], "registers": 44, "shared_bytes": 0,
        "blocks_per_sm": 8.0, "warps_per_sm": 64.0, "occupancy_percent": 63,
    }  # fmt: skip
    assert [[name for name, _ in around] for around in activity["enclosing"]] == [
        ["aten::randn", "aten::normal_"],
        ["aten::matmul", "aten::mm"],
        ["aten::square", "aten::pow"],
        ["aten::randn", "aten::normal_"],
    ]
