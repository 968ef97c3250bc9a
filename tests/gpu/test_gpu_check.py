"""`klab check` on a real GPU: what is blamed on whom, and what the battery survives."""

import ctypes
from pathlib import Path

import pytest
import torch

from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.trials import calls
from kernellab.trials.trial import Trial
from support.trying import op_of, plane

pytestmark = pytest.mark.gpu

ATTENTION = """
import torch, kernellab as kl

@kl.op(
    args=dict(q=kl.tensor("B H S D"), k=kl.tensor("B H S D"), v=kl.tensor("B H S D")),
    dtypes=["bfloat16"],
    cases=kl.cases(B=[1], H=[2], S=[64], D=[64]),
)
def attention(q, k, v):
    return torch.softmax((q @ k.mT).float() / 8, dim=-1).to(q.dtype) @ v

@attention.impl("torch")
def _(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)
"""


def test_attention_without_heads_is_no_crash_of_the_plain_operators(klab, tmp_path):
    """PyTorch's fused attention divides by the number of heads, and may take the process down as the peer."""
    (tmp_path / "attention.py").write_text(ATTENTION)
    seen = klab("check", tmp_path / "attention.py", "--impl", "manual,torch", "--quick", "--json")
    summaries = {summary["impl"]: summary for summary in seen.record["batteries"]}
    assert summaries["manual"]["status"] == "ok", summaries["manual"]["failures"][:3]
    labels = [trial["trial"]["label"] for trial in seen.record["trials"] if trial["impl"] == "manual"]
    assert any(" H=0 " in label for label in labels)
    crashes = [failure["label"] for failure in summaries["torch"]["failures"] if failure["status"] == "crashed"]
    assert all(" H=0 " in label for label in crashes)
    reached = [summary["tried"] + sum(summary["outside"].values()) for summary in summaries.values()]
    assert reached[0] == reached[1], "a crash ends its trial only"


FAULTY = """
import torch, triton, triton.language as tl, kernellab as kl

@kl.op(cases=kl.cases(shape=[(8, 64)], dtype=["float32"]))
def double(x):
    return x + x

@triton.jit
def far_store(y_ptr, offset, BLOCK: tl.constexpr):
    tl.store(y_ptr + offset + tl.arange(0, BLOCK), 1.0)

@double.impl("faulty", kind="triton")
def _(x):
    y = x * 2
    if x.shape == (33,):
        far_store[(1,)](y, 1 << 44, BLOCK=32)
    return y
"""


def test_a_gpu_fault_ends_its_trial_and_not_the_battery(klab, tmp_path):
    (tmp_path / "faulty.py").write_text(FAULTY)
    seen = klab("check", tmp_path / "faulty.py", "--impl", "manual,faulty", "--quick", "--json")
    summaries = {summary["impl"]: summary for summary in seen.record["batteries"]}
    failures = {(failure["label"].split(" · ")[0], failure["status"]) for failure in summaries["faulty"]["failures"]}
    assert failures == {("33", "crashed")}
    assert summaries["manual"]["status"] == "ok"
    assert summaries["faulty"]["tried"] == summaries["manual"]["tried"]


def test_nan_that_pytorch_has_on_a_gpu_alone_is_not_required():
    """torch's rms_norm of a row with inf is NaN in all columns on some GPUs, and 0 on a CPU."""
    op = op_of(lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]), "N")
    op.impl("formula")(lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + torch.finfo(x.dtype).eps))
    op.impl("zeros")(torch.zeros_like)
    examiner = Examiner(op, seed=0, device=torch.device("cuda"))
    trial = Trial("values", Case(plane(128), "float32", {}), values={"x": "with ±inf"})
    assert examiner.examine(op["formula"], trial).status == "ok"
    assert examiner.examine(op["zeros"], trial).status == "wrong"


TUNED = """
import kernellab as kl, triton, triton.language as tl

@kl.op(args=dict(x=kl.tensor("N")), cases=kl.cases(N=[4096], dtype=["float32"]))
def double(x):
    return x * 2

@triton.autotune([triton.Config({"BLOCK": 256, "FACTOR": f}) for f in FACTORS], key=["n"])
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * FACTOR, at < n)

@double.impl("tuned")
def _(x):
    x = x.contiguous()
    y = x.new_empty(x.shape)
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]) or 1,)](x, y, x.numel())
    return y
"""


@pytest.mark.parametrize("factors", [(2.0, 2.0), (2.0, 3.0)])
def test_the_battery_tries_every_configuration_of_an_autotuned_kernel_without_tuning(klab, tmp_path, factors):
    (tmp_path / "tuned.py").write_text(TUNED.replace("FACTORS", str(factors)))
    seen = klab("check", tmp_path / "tuned.py", "--impl", "tuned", "--quick", "--json")
    (battery,) = seen.record["batteries"]
    reasons = " ".join(failure["reason"] for failure in battery["failures"])
    assert ("scale ran with BLOCK=256 FACTOR=3.0" in reasons) == (3.0 in factors)
    assert "FACTOR=2.0" not in reasons
    assert any("scale is autotuned: each trial ran one of its 2" in note for note in battery["notes"])


def test_an_error_that_a_call_leaves_behind_is_its_own_and_not_the_next_ones():
    library = next((Path(torch.__file__).parent.parent / "nvidia").rglob("libcudart.so*"), None)
    if library is None:
        pytest.skip("torch's CUDA runtime is not a library of its own")
    runtime = ctypes.CDLL(str(library))

    def careless(x):
        runtime.cudaSetDevice(10_000)  # the refusal is not looked at
        return x * 2

    op = op_of(lambda x: x + x, careless=careless, good=lambda x: x * 2)
    gpu = torch.device("cuda", 0)
    examiner = Examiner(op, seed=0, device=gpu)
    trial = Trial("sizes", Case({"...": (0,), "N": 8}, "float32", device="cuda"))
    assert examiner.examine(op["careless"], trial).status == "error"
    assert examiner.examine(op["good"], trial).status == "ok"


@pytest.mark.parametrize("call", [calls.PLAIN, calls.TWICE, *calls.GPU_ONLY])
@pytest.mark.parametrize("pass_name", ["forward", "backward"])
def test_an_implementation_that_works_in_place_is_right_in_every_call_variant(call, pass_name):
    op = op_of(lambda x: x * x)
    op.impl("in-place", mutates=["x"])(lambda x: x.pow_(2))
    trial = Trial("calls", Case(plane(), "float32", device="cuda"), call=call, pass_name=pass_name)
    outcome = Examiner(op, seed=0, device=torch.device("cuda", 0)).examine(op["in-place"], trial)
    assert outcome.status in ("ok", "outside"), outcome.reason
    assert outcome.status == "ok" or "CUDA graph" in outcome.reason
