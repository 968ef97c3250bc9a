"""First calls that load libraries are not launch overhead."""

import pytest

from kernellab.analysis.document import analyse
from kernellab.reporting.profiles.summary import lines
from kernellab.traces import kineto
from support.klab import HERE


def test_on_an_h200_loading_a_kernel_is_set_up_not_launch_bound():
    products = analyse(kineto.read(HERE / "samples" / "matmuls_h200.json.gz"))
    (finding,) = products["findings"]
    assert (finding["kind"], finding["evidence"]["operator"]) == ("setup", "aten::pow")
    # Of `aten::pow`, 43.08 ms in its first call against about 0.06 ms, and of `aten::normal_`, 2.87 ms against 0.04 ms.
    assert finding["evidence"]["setup_us"] == pytest.approx(43_080 + 2_870, rel=0.01)
    assert lines(products)[0].startswith("First-call set-up: first calls take 45.85 ms, most of it aten::pow.")
    assert "Warm up before recording" in lines(products)[1]
