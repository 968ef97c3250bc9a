"""Every shipped kernel's machine code is known, word for word: one of each here, all of them by shipped_code.py."""

import pytest

from kernellab.codeanalysis.facts import facts
from kernellab.machinecode.instruction_classes import CLASSES
from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from kernellab.ptxwords.stages import STAGES
from support import shipped_code


@pytest.fixture(scope="module")
def compiled():
    return dict(shipped_code.some())


def test_every_line_of_ptx_is_put_into_words_and_stages_and_pointers_are_told_from_integers(compiled):
    for name, code in compiled.items():
        module = parse_ptx(code.ptx)
        assert module.problems == [], name
        explained = explain_ptx(module)
        assert [one.text for one in explained if not one.known] == [], name
        seen = {one.stage for one in explained}
        assert seen | {"library"} == set(STAGES), name  # only who includes headers has their constants
        said = [one.words for one in explained if one.words.startswith("parameter")]
        assert all("a pointer" in words for words in said[:2]), name  # x and y
        assert "an integer" in said[2], name  # a size


def test_every_instruction_of_the_binary_is_of_a_known_class(compiled):
    for name, code in compiled.items():
        for found in facts(code.cubin):
            assert set(found.instructions) <= set(CLASSES) - {"unknown"}, name
            assert found.arch.rstrip("a") == name.rpartition(" ")[2]
            assert found.registers > 0
            assert found.widest_global_bytes > 0, name
            assert not any("fp64" in remark for remark in found.remarks), name
