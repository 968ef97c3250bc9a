"""`klab explain`: an op without a GPU, a record, and what it refuses."""

import json

import pytest

from kernellab.base.paths import file_name
from kernellab.machine.environment import device_identity, environment
from kernellab.record.event import Event
from kernellab.record.journal import fold
from support.records import ENVIRONMENT

OP = """
import torch, triton, triton.language as tl
import kernellab as kl

@kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(shape=[(4096, 4096)], dtype=["float32"],
       cpu=dict(shape=[(256, 256)], dtype=["float32"])))
def plus(x):
    return (x + 1) * 2 - 1

@triton.jit
def add(x_ptr, y_ptr, n, stride, BLOCK: tl.constexpr):
    at = (tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)).to(tl.int64)
    at = at % n * stride + at // n
    tl.store(y_ptr + at, (tl.load(x_ptr + at) + 1) * 2 - 1)

@plus.impl("triton-strided")
def _(x):
    y = torch.empty_like(x)
    add[(x.numel() // 1024,)](x, y, x.shape[0], x.stride(0), 1024)
    return y
"""


@pytest.fixture
def ceilings(tmp_path):
    """A cache that knows this machine's ceilings, which take long to measure."""
    folder = tmp_path / "cache" / "ceilings"
    folder.mkdir(parents=True)
    ceilings = {"copy_gbps": 100.0, "matmul_tflops": {"float32": 0.1}, "threads": 1, "measured_at": "", "doubts": []}
    (folder / f"{file_name(device_identity(environment(), 'cpu'))}.json").write_text(json.dumps(ceilings))
    return str(tmp_path / "cache")


def test_without_a_gpu_cpu_impls_are_explained_by_their_times_and_kernels_by_a_model(klab, tmp_path, ceilings):
    (tmp_path / "plus.py").write_text(OP)
    done = klab(
        *("explain", "plus.py", "--impl", "manual,triton*", "--gpu", "h200", "--seconds", "0.1", "--json"),
        *("--out", "run", "--device", "cpu"),
        KERNELLAB_CACHE=ceilings,
    )
    assert done.code == 0, done.err
    results = {(r["impl"], r["measured"]): r for r in json.loads(done.out)["results"]}
    chain = results["manual", True]
    assert chain["findings"][0]["rule"] == "unfused-chain"
    assert chain["fusion"]["moved_bytes"] == 3 * chain["fusion"]["fewest_bytes"]
    assert chain["roofline"]["roof_us"] == pytest.approx(2 * 256 * 256 * 4 / 100e3)
    strided = results["triton-strided", False]
    assert strided["gpu"] == "H200 SXM 141GB"
    assert (strided["findings"][0]["rule"], strided["findings"][0]["sure"]) == ("uncoalesced", "likely")
    choices = {choice["impl"]: choice for choice in json.loads(done.out)["choices"][0]["impls"]}
    assert (choices["triton-strided"]["kernel_lines"], choices["triton-strided"]["launcher_lines"]) == (4, 4)
    again = klab("explain", "run", "--plot", "roof.svg")
    assert "plus manual: 3 operators move 6 tensors where 2 suffice" in again.out
    assert "not timed: a model of H200 SXM 141GB" in again.out  # the run's own; --gpu names another
    assert (tmp_path / "roof.svg").read_text().count("</svg>") == 1


QUERIES_DEVICE = """
import torch, triton, triton.language as tl
import kernellab as kl

@kl.op(cases=kl.cases(shape=[(1 << 24,)], dtype=["float32"]))
def f(x):
    return x + 1

@triton.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    for at in range(tl.program_id(0) * BLOCK, n, tl.num_programs(0) * BLOCK):
        tl.store(y_ptr + at + tl.arange(0, BLOCK), tl.load(x_ptr + at + tl.arange(0, BLOCK)) + 1)

@f.impl("triton")
def _(x):
    device = torch.cuda.get_device_properties(x.device)
    assert (device.name, device.L2_cache_size, device.total_memory) == ("GeForce RTX 4060", 24 << 20, 8 << 30)
    assert torch.cuda.get_device_capability() == (8, 9)
    y = torch.empty_like(x)
    add[(device.multi_processor_count,)](x, y, x.numel(), 1024)
    return y
"""


def test_launches_are_those_of_the_named_gpu_and_the_run_records_it(klab, tmp_path):
    (tmp_path / "queries.py").write_text(QUERIES_DEVICE)
    done = klab("explain", "queries.py", "--impl", "triton", "--static", "--gpu", "4060", "--out", "run")
    assert done.code == 0, done.out + done.err
    assert "add: 24 blocks of 128 threads" in done.out
    assert "a model of GeForce RTX 4060" in done.out
    assert "a model of GeForce RTX 4060" in klab("explain", "run").out


CUDA = """
extern "C" __global__ void __launch_bounds__(128) doubles(const float4* x, float4* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float4 v = x[at];
  float* e = (float*)&v;
#pragma unroll
  for (int i = 0; i < 4; ++i) { double d = e[i]; e[i] = (float)(exp(-d * d) * d); }
  y[at] = v;
}
extern "C" __global__ void picks(const float* x, float* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float a[32];
#pragma unroll
  for (int i = 0; i < 32; ++i) a[i] = x[at + i * n];
  float s = 0.f;
  int j = threadIdx.x & 31;
#pragma unroll 1
  for (int i = 0; i < 32; ++i) { s += a[j]; j = (j * 5 + 1) & 31; }
  y[at] = s;
}
extern "C" __global__ void sines(const float4* x, float4* y, long long n) {
  long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;
  if (at >= n) return;
  float4 v = x[at];
  y[at] = make_float4(sinf(v.x), sinf(v.y), sinf(v.z), sinf(v.w));
}
"""
CUDA_OP = """
import torch
import kernellab as kl

@kl.op(cases=kl.cases(shape=[(1 << 26,)], dtype=["float32"], cpu=dict(shape=[(64,)], dtype=["float32"])))
def f(x):
    return x

def register(name, kernel, per, threads):
    run = kl.cuda.kernel("f.cu", kernel)
    def launch(x):
        y = torch.empty_like(x)
        run(-(-x.numel() // per // threads), threads, x, y, x.numel() // per)
        return y
    f.impl(name, kind="cuda")(launch)

register("doubles", "doubles", 4, 128)
register("unbound", "doubles", 4, 256)
register("wide", "sines", 4, 2048)
register("picks", "picks", 32, 256)
register("sines", "sines", 4, 256)
"""


def test_cuda_kernels_are_explained_from_their_machine_code(klab, tmp_path):
    (tmp_path / "f.cu").write_text(CUDA)
    (tmp_path / "f.py").write_text(CUDA_OP)
    done = klab("explain", "f.py", "--static", "--gpu", "h200", "--impl", "doubles,unbound,wide,picks,sines", "--json")
    assert done.code == 0, done.err
    document = json.loads(done.out)
    findings = {r["impl"]: r["findings"] for r in document["results"]}
    (doubles,) = findings["doubles"]
    assert (doubles["rule"], doubles["gain"]) == ("fp64-by-accident", None)
    (unbound,), (wide,) = findings["unbound"], findings["wide"]
    assert unbound["title"] == "cannot launch: the kernel is compiled for blocks of at most 128 threads, not 256"
    assert wide["title"] == "cannot launch: a block of sm_90 has at most 1024 threads, not 2048"
    assert wide["do"] == "launch blocks of 1024 threads or fewer"
    assert findings["picks"][0]["rule"] == "local-arrays"
    assert findings["picks"][0]["gain"] > 1.2
    assert findings["sines"] == []  # sin's slow path has doubles, a table and an array of its own
    again = klab("explain", document["folder"])
    assert "f wide: cannot launch: a block of sm_90 has at most 1024 threads" in again.out
    assert "NVRTC compiles it at first use" in again.out


FAILING = """
import torch, triton, triton.language as tl
import kernellab as kl

@kl.op(args=dict(x=kl.tensor("M N")), cases=kl.cases(shape=[(256, 256)], dtype=["float32"]))
def f(x):
    return x.T.contiguous()

@triton.jit
def turn(x_ptr, y_ptr):
    a, b = tl.arange(0, 256)[:, None], tl.arange(0, 256)[None, :]
    tl.store(y_ptr + a * 256 + b, tl.trans(tl.load(x_ptr + a * 256 + b)))

@f.impl("triton")
def _(x):
    y = torch.empty_like(x)
    turn[(1,)](x, y, num_warps=32)
    return y

@f.impl("triton-raises")
def _(x):
    raise ValueError("not today")

kernel = kl.cuda.kernel("f.cu", "f")

@f.impl("cuda")
def _(x):
    kernel(1, 32, x)
    return x
"""


def test_impls_that_fail_are_named_with_their_reasons(klab, tmp_path):
    (tmp_path / "f.cu").write_text('extern "C" __global__ void f(float* x) { x[0] = nonsense; }')
    (tmp_path / "f.py").write_text(FAILING)
    done = klab("explain", "f.py", "--static", "--gpu", "h200", "--out", "run")
    assert done.code == 1, done.err
    for again in (done, klab("explain", "run")):
        assert "f manual: " in again.out
        assert "triton (sm_90)  error: OutOfResources: out of resource: shared memory" in again.out
        assert "triton-raises (sm_90)  error: ValueError: not today" in again.out
        assert "cuda (sm_90)  error: f.cu does not compile for sm_90" in again.out
        assert "compile  skipped: not inspected, because compiling takes long" in again.out
    others = json.loads(klab("explain", "run", "--json").out)["others"]
    assert [entry["impl"] for entry in others if entry["status"] == "error"] == ["triton", "triton-raises", "cuda"]


def test_a_run_of_machine_code_alone_says_which_command_makes_one_to_explain(klab, tmp_path):
    (tmp_path / "f.cu").write_text(CUDA)
    (tmp_path / "f.py").write_text(CUDA_OP)
    seen = klab("inspect", "f.py", "--impl", "unbound", "--out", "read")
    assert seen.code == 0, seen.err
    assert "unbound doubles on sm_90 cannot launch: the kernel is compiled for blocks of at most 128" in seen.out
    done = klab("explain", "read")
    assert (done.code, done.out) == (2, "")
    message = "read has only machine code: klab explain f.py --static makes a run that can be explained"
    assert done.err.strip() == f"klab: {message}"


CASE = {"dims": {"...": [16384, 16384]}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cuda"}
GPU = {"name": "NVIDIA H200", "arch": "sm_90", "sms": 132, "l2_bytes": 50 << 20, "memory_bytes": 1, "pin_gbps": 4917.0}
SIZE = 16384 * 16384 * 4


def recorded(tmp_path, times):
    """A run on an H200 with these times, by implementation."""
    at = {"op": "gelu", "case": CASE}
    gelu = [(1, 1), (1, 1), (2, 1), (1, 1), (2, 1), (1, 1), (1, 1), (1, 1), (2, 1)]
    moved = [
        {"op": "aten::mul", "read_bytes": r * SIZE, "write_bytes": w * SIZE, "kernels": [n]}
        for n, (r, w) in enumerate(gelu)
    ]
    series = {"pass": "forward", "timer": "events", "cache": "cold"}
    ceilings = {"copy_gbps": 4273.0, "matmul_tflops": {}, "doubts": []}
    events = [
        {
            "event": "run",
            "schema": 3,
            "command": [],
            "seed": 0,
            "environment": ENVIRONMENT,
            "settings": {"targets": [], "stages": ["time"]},
        },
        {"event": "machine", "machine": {"device": "cuda:0", "name": "NVIDIA H200", "ceilings": ceilings, "gpu": GPU}},
        {"event": "plan", "sources": {}, "groups": [{**at, "impls": {impl: impl for impl in times}}]},
        {"event": "cost", **at, "cost": {"bytes_read": SIZE, "bytes_written": SIZE, "flops": {}}},
        *(
            {
                "event": "check",
                **at,
                "impl": impl,
                "check": {"status": "ok", "reason": None, "checked_at": {"interpreter": False}},
            }
            for impl in times
        ),
        *(
            {"event": "round", **at, **series, "round": n, "samples_us": {impl: [us] for impl, us in times.items()}}
            for n in range(10)
        ),
        {"event": "timed", **at, **series, "impls": list(times)},
        {"event": "traffic", **at, "impl": "manual", "traffic": moved},
        {"event": "complete"},
    ]
    (tmp_path / "run.json").write_text(json.dumps(fold(map(Event.parse, events))))
    return tmp_path / "run.json"


def test_a_record_is_explained_without_running_anything(klab, tmp_path):
    run = recorded(tmp_path, {"manual": 5251.0, "triton": 506.6, "compile": 509.9})
    done = klab("explain", run)
    assert done.code == 0, done.err
    lines = [line.strip() for line in done.out.splitlines()]
    assert "gelu triton: at the limit: 99 % of measured bandwidth" in lines
    # What the H200 gave: 5251 / 506.6 = 10.37.
    assert "gelu manual: 9 kernels move 21 tensors where 2 suffice: fusing gains about 10.4×, as triton shows" in lines
    assert "torch.compile is enough here: within 1 % of the fastest, triton, with no kernel to write." in lines
    assert "scheduling across SMs" not in done.out
    assert "scheduling across SMs" in klab("explain", run, "--verbose").out


def test_an_impl_that_was_wrong_is_named_with_its_reason(klab, tmp_path):
    run = recorded(tmp_path, {"manual": 5251.0, "liar": 10.0})
    record = json.loads(run.read_text())
    liar = next(r for r in record["results"] if r["impl"] == "liar")
    liar["check"] |= {"status": "wrong", "reason": "3 of 9 elements differ"}
    run.write_text(json.dumps(record))
    done = klab("explain", run)
    assert done.code == 1
    assert "liar (cuda)  wrong: 3 of 9 elements differ" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gelu", "--gpu", "h100", "--arch", "sm_90"], "leave out --arch"),
        (["gelu", "--plot", "roof.txt"], "must end in .png or .svg"),
        (["gelu", "--gpu", "voodoo2"], "no GPU 'voodoo2'"),
        (["no-such-op"], "no-such-op"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, arguments, message):
    done = klab("explain", *arguments)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def test_a_file_of_several_ops_is_refused_before_anything_runs(klab, tmp_path):
    (tmp_path / "two.py").write_text("import kernellab as kl\n\n@kl.op\ndef f(x): ...\n\n@kl.op\ndef g(x): ...\n")
    done = klab("explain", "two.py")
    assert (done.code, done.err.strip()) == (2, "klab: two.py declares f, g: name one, two.py:f")


def test_a_finished_run_takes_no_options_of_measuring(klab, tmp_path):
    done = klab("explain", recorded(tmp_path, {"manual": 10.0}), "--impl", "manual")
    assert (done.code, "is not measured again" in done.err) == (2, True)
