"""Reading ops from their source without executing it."""

import pytest

from kernellab.declaration.catalogue import catalogue, parse
from kernellab.declaration.targets import load, resolve, shipped_names


@pytest.mark.parametrize("name", shipped_names())
def test_reading_the_source_sees_what_loading_sees(name):
    op = load(resolve(name))[name]
    entry = next(entry for entry in catalogue() if entry.name == name)
    assert {impl: kind.name for impl, kind in entry.impls.items()} == {n: i.kind.name for n, i in op.impls.items()}
    assert entry.studies == {impl.name for impl in op.impls.values() if impl.study}
    assert entry.flaws == {impl.name: impl.flaw for impl in op.impls.values() if impl.flaw}
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


@pytest.mark.parametrize(
    "extension",
    [
        "import kernellab as kl\nkl.ops.softmax.impl('liger', kind='triton')(print)\n",
        "import kernellab as kl\n@kl.ops.softmax.impl('liger', kind='triton')\ndef f(x): ...\n",
        "from kernellab.ops import softmax as s\ns.impl('liger', kind='triton')(print)\n",
        "import kernellab.ops\nop = kernellab.ops.softmax\nop.impl('liger', kind='triton')(print)\n",
    ],
)
def test_a_shipped_op_that_a_file_extends_is_seen_with_all_its_implementations(tmp_path, extension):
    (tmp_path / "mine.py").write_text(extension)
    (entry,) = parse(tmp_path / "mine.py").values()
    shipped = load(resolve("softmax"))["softmax"]
    assert entry.name == "softmax"
    assert set(entry.impls) == {*shipped.impls, "liger"}
    assert entry.impls["liger"].name == "triton"


def test_a_file_that_only_uses_a_shipped_op_declares_none(tmp_path):
    (tmp_path / "script.py").write_text("import kernellab as kl\nkl.ops.softmax['torch'](1)\nx.impl('a')(print)\n")
    assert parse(tmp_path / "script.py") == {}
