"""Lines of source, PTX and SASS that belong together share a group."""

from kernellab.machinecode.source_links import SourcePart, link_code

SOURCE = "@jit\ndef k(x):\n    y = half(x)\n    store(y)\n\n@jit\ndef half(x):\n    return tl.sum(x) / 2\n"
PARTS = [SourcePart("/ops/../ops/k.py", 10, 1), SourcePart("/ops/half.py", 5, 6)]
PTX = """.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 x)
{
	.reg .b32 %r<9>;
	.loc	1 12 4                          // k.py:12:4
	mov.u32 %r1, %tid.x;
$L__tmp1:
	.loc	2 7 11                          // half.py:7:11 @[ k.py:12:8 ]
	mov.u32 %r2, %ctaid.x;
	// a comment
	.loc	3 170 4                         // standard.py:170:4 @[ half.py:7:11 @[ k.py:12:8 ] ]
	add.u32 %r3, %r1, %r2;
	.loc	1 13 4                          // k.py:13:4
	ret;
}
	.file	1 "/ops/k.py"
	.file	2 "/ops/half.py"
	.file	3 "/triton/standard.py"
	.section	.debug_info	{
.b8 1
	}
"""
SASS = """	.section	.text.k,"ax",@progbits
	//## File "/ops/k.py", line 12
        /*0000*/                   S2R R1, SR_TID.X ;
	//## File "/triton/standard.py", line 170
        /*0010*/                   IADD3 R1, R1, R2, RZ ;
.L_x_0:
	//## File "/ops/half.py", line 7
        /*0020*/                   FMUL R1, R1, 0.5 ;
	//## File "/elsewhere.py", line 1
        /*0030*/                   EXIT ;
"""


def partners(code, text, line):
    """What belongs to a line of one text: the numbers of lines of the others that share a group with it."""
    linked = getattr(code, text)
    own = set(linked.groups[linked.lines.index(line)])
    others = (name for name in ("source", "ptx", "sass") if name != text)
    return {
        name: [number for number, groups in zip(other.numbers, other.groups, strict=True) if own & set(groups)]
        for name in others
        for other in [getattr(code, name)]
    }


def test_a_line_of_source_belongs_to_what_it_was_compiled_to():
    code = link_code(SOURCE, PARTS, PTX, SASS)
    assert partners(code, "source", "    y = half(x)") == {"ptx": ["8"], "sass": ["0000"]}
    assert partners(code, "source", "    return tl.sum(x) / 2") == {"ptx": ["11", "14"], "sass": ["0010", "0020"]}
    assert partners(code, "sass", "    IADD3 R1, R1, R2, RZ") == {"source": ["7"], "ptx": ["11", "14"]}


def test_what_was_inlined_also_belongs_to_the_line_that_calls_it():
    code = link_code(SOURCE, PARTS, PTX, SASS)
    call = code.source.groups[code.source.lines.index("    y = half(x)")]
    for text in (code.ptx, code.sass):
        assert [line for line, outer in zip(text.lines, text.outer, strict=True) if outer == call] == [
            line for line in text.lines if "ctaid" in line or "add.u32" in line or "IADD3" in line or "FMUL" in line
        ]


def test_only_lines_worth_reading_are_shown_with_the_numbers_of_their_files():
    code = link_code(SOURCE, PARTS, PTX, SASS)
    assert code.ptx.numbers == ["1", "2", "3", "4", "5", "6", "8", "11", "14", "16", "17"]
    assert code.sass.numbers == ["0000", "0010", "", "0020", "0030"]
    assert code.source.numbers[:4] == ["10", "11", "12", "13"]
    assert code.source.numbers[5:8] == ["5", "6", "7"]
    assert code.source.groups[code.source.lines.index("def k(x):")] == []  # nothing was compiled from it


def test_nvrtc_names_only_the_caller_of_each_function():
    source = "void k() {\n  a();\n}\nvoid a() { b(); }\n"
    ptx = """.version 9.0
.target sm_90
.address_size 64
.visible .entry k()
{
	.loc	1 2 3
	.loc	1 4 12, function_name $L__info_string0, inlined_at 1 2 3
	.loc	2 7 5, function_name $L__info_string1, inlined_at 1 4 12
	mov.u32 %r1, %tid.x;
	ret;
}
	.file	1 "/ops/op/../k.cu"
	.file	2 "/cuda/include/b.h"
"""
    sass = '//## File "/cuda/include/b.h", line 7\n/*0000*/ S2R R1, SR_TID.X ;\n/*0010*/ EXIT ;\n'
    code = link_code(source, [SourcePart("/ops/k.cu", 1, 1)], ptx, sass)
    assert partners(code, "sass", "    S2R R1, SR_TID.X") == {"source": ["4"], "ptx": ["9", "10"]}
    assert code.sass.outer[0] == code.source.groups[1] != []


def test_lines_of_a_library_link_ptx_and_sass_where_nothing_shown_calls_them():
    code = link_code("", [], PTX, SASS)
    assert partners(code, "sass", "    IADD3 R1, R1, R2, RZ") == {"source": [], "ptx": ["14"]}


def test_texts_that_say_nothing_or_lie_are_shown_without_links():
    assert link_code("", [], "", "") == link_code("", [SourcePart("", -1, -9)], "", "")
    code = link_code("<script>\n" * 3, [SourcePart("/a", 1, 10**9), SourcePart("/a", -(10**9), 2)], "{ .loc 1 1", "/*")
    assert code.source.lines[0] == "<script>"
    assert not any(code.source.groups)


def test_callers_that_call_each_other_end():
    ring = "".join(f".loc 1 {n} 0, function_name x, inlined_at 1 {n % 500 + 1} 0\n" for n in range(1, 501))
    ptx = f'.version 9.0\n.target sm_90\n.visible .entry k()\n{{\n{ring}ret;\n}}\n.file 1 "/a.cu"\n'
    code = link_code("", [], ptx, '//## File "/a.cu", line 500\n/*0000*/ EXIT ;\n' * 2000)
    assert code.sass.groups[0] == code.ptx.groups[code.ptx.lines.index("ret;")]
