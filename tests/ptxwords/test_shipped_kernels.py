"""Every line and instruction of the shipped kernels is understood, here of each template once.

`make exhaustive` looks at every instantiation for every type and architecture.
"""

import pytest

from kernellab.codeanalysis.facts import facts_from_cubin
from kernellab.machinecode.instruction_classes import CLASSES
from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from kernellab.ptxwords.stages import STAGES
from support import shipped_code


@pytest.fixture(scope="module")
def compiled():
    return dict(shipped_code.sample_kernels())


def test_the_sample_has_every_type_and_architecture(compiled):
    for impl in shipped_code.IMPLS:
        names = [name.split() for name in compiled if f" {impl} " in name]
        assert {dtype for *_, dtype, _ in names} == set(shipped_code.DTYPES)
        assert {arch for *_, arch in names} == {f"sm_{arch}" for arch in shipped_code.ARCHS}


def test_every_line_of_ptx_is_explained_and_pointers_are_distinguished_from_integers(compiled):
    for name, code in compiled.items():
        module = parse_ptx(code.ptx)
        assert module.problems == [], name
        lines = explain_ptx(module)
        assert [line.text for line in lines if not line.known] == [], name
        stages = {line.stage for line in lines}
        assert stages | {"library"} == set(STAGES), name  # only a kernel that includes headers has their constants
        parameters = [line.words for line in lines if line.words.startswith("parameter")]
        assert sum("a pointer" in words for words in parameters) >= 2, name
        assert any("an integer" in words for words in parameters), name


def test_every_instruction_of_the_binary_has_a_known_class(compiled):
    for name, code in list(compiled.items())[::3]:  # disassembling takes long, and kernels share most instructions
        kernels = facts_from_cubin(code.cubin)
        assert kernels, name
        for facts in kernels:
            assert set(facts.instructions) <= set(CLASSES) - {"unknown"}, name
            assert facts.arch.rstrip("a") == name.rpartition(" ")[2]
            assert facts.registers > 0
            assert facts.widest_global_bytes > 0 or "bulk_copy" in facts.instructions, name
            assert not any("fp64" in remark for remark in facts.remarks), name
