"""The benchmark that makes a large trace from a small one."""

from importlib.util import module_from_spec, spec_from_file_location

import numpy as np

from kernellab import traces
from kernellab.traces.trace import Kind
from support.chrome_traces import a_step, written
from support.klab import HERE


def test_copies_of_a_trace_keep_their_own_links(tmp_path):
    spec = spec_from_file_location("grow_trace", HERE.parent / "benchmarks" / "grow_trace.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    small, grown = written(tmp_path / "t.json", a_step()), tmp_path / "grown.json"
    count = module.grow(small, grown, 100, 3)
    trace = traces.read(grown)
    assert count >= 100
    assert not trace.notes
    kernels = trace.rows(Kind.KERNEL)
    assert len(kernels) == 11
    calls = trace.launched_by[kernels]
    assert len(set(calls.tolist())) == 11
    assert np.all(trace.begin[calls] < trace.begin[kernels])
    assert np.all(trace.begin[kernels] - trace.begin[calls] < 100_000)
    assert len({trace.name_of(row) for row in kernels}) == 3
