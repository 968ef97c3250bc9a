"""The process that profiles implementations of an op."""

import pytest

from kernellab.base.errors import UserError
from kernellab.running.programs.profiled_op import profile_impls
from support.op_requests import op_request


def test_implementations_are_profiled_one_by_one(tmp_path):
    request = op_request("gelu", impls=["torch", "triton"], schedule="1,1,2,2", **{"pass": "both"})
    torch_report, triton_report = profile_impls(request, tmp_path)
    assert (torch_report["impl"], torch_report["status"], len(torch_report["traces"])) == ("torch", "ok", 2)
    assert all((tmp_path / name).exists() for name in torch_report["traces"])
    assert torch_report["step_us"] > 0
    assert (triton_report["impl"], triton_report["status"], triton_report["traces"]) == ("triton", "skipped", [])
    assert "needs a GPU" in triton_report["reason"]


def test_an_unknown_implementation_is_refused(tmp_path):
    with pytest.raises(UserError, match="no implementation 'tritn' of gelu"):
        list(profile_impls(op_request("gelu", impls=["tritn"]), tmp_path))
