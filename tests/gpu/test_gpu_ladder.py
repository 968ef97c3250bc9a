"""The steps from textbook kernels to the shipped ones: all are right, but for those that are wrong on purpose."""

import pytest
import torch

import kernellab as kl
from kernellab.declaration.case_request import CaseRequest

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm"])
def test_only_what_is_wrong_on_purpose_is_wrong(klab, name):
    studies = {impl.name: impl for impl in getattr(kl.ops, name).impls.values() if impl.study}
    seen = klab("check", name, "--impl", ",".join(studies), "--quick", "--json")
    assert seen.code == (1 if any(impl.flaw for impl in studies.values()) else 0), seen.err
    statuses = {result["impl"]: result["derived"]["status"] for result in seen.record["results"]}
    assert statuses == {name: "wrong" if impl.flaw else "ok" for name, impl in studies.items()}
    batteries = {battery["impl"]: battery for battery in seen.record["batteries"]}
    for impl in studies:
        assert batteries[impl]["tried"] > 20


@pytest.mark.parametrize(
    ("name", "impl", "reason"),
    [("gelu", "cuda-exp-tanh", "differ in being NaN or inf"), ("layer_norm", "cuda-squares", "")],
)
def test_a_mistake_is_found_where_its_values_are(klab, name, impl, reason):
    seen = klab("check", name, "--impl", impl, "--quick", "--dtype", "float32", "--json")
    (battery,) = seen.record["batteries"]
    found = [failure for failure in battery["failures"] if failure["kind"] == "values"]
    assert found
    assert reason in found[0]["reason"]


@pytest.mark.parametrize("name", ["softmax", "layer_norm"])
@pytest.mark.parametrize("cols", [1, 7, 1024, 4099, 16384])
@pytest.mark.parametrize("offset", [0, 1])  # the second starts on no multiple of 16 bytes
def test_rows_of_any_width_and_alignment_agree_with_the_shipped_kernel(name, cols, offset):
    op = getattr(kl.ops, name)
    case = next(iter(op.expand(CaseRequest(shapes=[(5, cols)], dtypes=["float32"]), "cuda")))
    x = torch.randn(5 * cols + offset, device="cuda")[offset:].view(5, cols)
    steps = [i for i in op.impls.values() if i.study and not i.flaw and i.refusal(case) is None]
    assert len(steps) >= 5
    for step in steps:
        assert torch.allclose(step(x), op["cuda"](x), atol=1e-5, rtol=1e-4), step.name
