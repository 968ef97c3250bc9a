"""SASS is parsed from the output of both of NVIDIA's disassemblers."""

import subprocess

from kernellab.machinecode import cuda_tools
from kernellab.machinecode.cubin import disassemble
from kernellab.machinecode.instructions import Guard, Source, instructions
from kernellab.machinecode.sass import parse_sass
from support import shipped_code

SASS = """
	.headerflags	@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_64BIT_ADDRESS EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"
	.section	.text.k,"ax",@progbits
k:
.text.k:
	//## File "/a/k.py", line 7
        /*0000*/                   MOV R1, c[0x0][0x28] ;    /* 0x00000a00ff017b82 */
                                                             /* 0x000e220000000800 */
.L_x_0:
        /*0010*/              @!P0 LDG.E.128.CONSTANT R4, desc[UR4][R6.64+0x10] ;
        /*0020*/                   FFMA R0, -R4, |R5|, -2.5e-3 ;
        /*0030*/               @P1 BRA `(.L_x_0) ;
        /*0040*/                   EXIT ;
"""


def test_a_function_of_sass_is_parsed():
    module = parse_sass(SASS)
    assert (module.arch, module.problems, [f.name for f in module.functions]) == ("sm_80", [], ["k"])
    move, load, fma, branch, end = instructions(module.functions[0].body)
    assert (load.base, load.guard, load.address) == ("LDG", Guard("P0", True), 0x10)
    assert "128" in load.modifiers
    assert (load.operands[1].name, load.operands[1].value) == ("R6", 16)
    assert [o.kind for o in fma.operands] == ["register", "register", "register", "immediate"]
    assert (fma.operands[1].negated, fma.operands[3].value) == (True, -2.5e-3)
    assert branch.operands[0].name == ".L_x_0"
    assert end.opcode == "EXIT"
    assert move.source == Source("/a/k.py", 7)


def test_scheduling_codes_after_the_operands_are_skipped():
    text = (
        "Function : k\n/*0250*/ @P0 BRA `(.L_x_1) &req={0,1} ?trans5;\n/*0260*/ LDC R1, c[0x0][0x37c] &wr=0x0 ?WAIT4;"
    )
    branch, load = instructions(parse_sass(text).functions[0].body)
    assert (branch.operands[0].name, branch.text) == (".L_x_1", "@P0 BRA `(.L_x_1)")
    assert (len(load.operands), load.operands[1].value) == (2, 0x37C)


def test_both_of_nvidias_disassemblers_give_the_same_instructions(tmp_path):
    cubin = shipped_code.compiled("gelu", "triton")[0].cubin
    by_nvdisasm = parse_sass(disassemble(cubin))
    (tmp_path / "k.cubin").write_bytes(cubin)
    command = [cuda_tools.require("cuobjdump"), "-sass", tmp_path / "k.cubin"]
    process = subprocess.run(command, capture_output=True, text=True, check=True)
    by_cuobjdump = parse_sass(process.stdout)
    assert by_cuobjdump.problems == by_nvdisasm.problems == []
    assert by_cuobjdump.arch == by_nvdisasm.arch == "sm_90a"
    codes = [[i.opcode for i in instructions(m.functions[0].body)] for m in (by_nvdisasm, by_cuobjdump)]
    assert codes[0] == codes[1]
