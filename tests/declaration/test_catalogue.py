"""Reading ops from their source without executing it."""

import pytest

from kernellab.declaration.catalogue import parse
from kernellab.declaration.targets import load, resolve, shipped_names


@pytest.mark.parametrize("name", shipped_names())
def test_reading_the_source_sees_what_loading_sees(name):
    op = load(resolve(name))[name]
    entry = parse(op.file)[name]
    assert {impl: kind.name for impl, kind in entry.impls.items()} == {n: i.kind.name for n, i in op.impls.items()}
    assert entry.studies == {impl.name for impl in op.impls.values() if impl.study}
    assert not entry.problem


def test_names_that_the_file_computes_are_reported_as_unknown(tmp_path):
    (tmp_path / "op.py").write_text(
        "import kernellab as kl\n@kl.op(manual=False)\ndef f(x):\n    'Doc.'\n    return x\n"
        "for w in (4, 8):\n    @f.impl(f'triton-{w}')\n    def _(x): return x\n"
        "@f.impl('liger', kind='triton')\ndef _(x): return x\n"
    )
    entry = parse(tmp_path / "op.py")["f"]
    assert (list(entry.impls), entry.computed_names, entry.summary) == (["compile", "liger"], True, "Doc.")
    assert entry.impls["liger"].name == "triton"


def test_a_file_that_cannot_be_read_is_a_problem_and_not_a_crash(tmp_path):
    (tmp_path / "broken.py").write_text("def (")
    assert "cannot be read" in parse(tmp_path / "broken.py")["broken"].problem
