"""The stage of a kernel that each line belongs to."""

from kernellab.machinecode.ptx import parse_ptx
from kernellab.ptxwords.explain import explain_ptx
from support.machine_code import TINY_PTX


def test_the_use_of_a_result_determines_the_stage():
    stages = {
        "ld.param.u64 %rd1": "entry",
        ".maxntid": "entry",
        ".reg .f32": "registers",
        "mov.u32 %r2, %tid.x": "index",
        "mul.wide.s32": "addresses",
        "add.s64 %rd5": "addresses",
        "mov.f32 %f3": "loads",  # the value for lanes in which the load is masked out
        "@%p1 ld.global": "loads",
        "fma.rn.f32": "arithmetic",
        "st.global": "stores",
        "setp.lt.s32": "control",
        "add.s32 %r8, %r8, 1": "control",  # the loop's counter
        "bar.sync": "control",
        "ret": "control",
    }
    lines = explain_ptx(parse_ptx(TINY_PTX))
    explained = {text: next(line.stage for line in lines if line.text.startswith(text)) for text in stages}
    assert explained == stages
