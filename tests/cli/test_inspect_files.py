"""`klab inspect` on files: what it prints, writes and refuses."""

import dataclasses
import html.parser
import json
import re

import pytest
from rich.console import Console

from kernellab.codeanalysis.facts import facts_from_sass
from kernellab.machinecode.assembler import assemble
from kernellab.machinecode.cubin import disassemble
from kernellab.machinecode.sass import parse_sass
from kernellab.reporting.terminal.code import show_facts
from support.klab import HERE

TINY = HERE / "samples" / "tiny.ptx"


@pytest.mark.bare
def test_a_ptx_file_is_assembled_and_its_facts_shown(klab):
    seen = klab("inspect", TINY)
    assert (seen.code, seen.err) == (0, "")
    for part in (
        r"registers per thread +\d+",
        r"shared bytes, static +256",
        "hottest loop",
        "assembled for sm_75 by ptxas",
    ):
        assert re.search(part, seen.out), part


def test_json_gives_the_kernels(klab):
    document = json.loads(klab("inspect", TINY, "--json").out)
    (kernel,) = document["kernels"]
    assert (kernel["file"], kernel["name"], kernel["arch"]) == ("tiny.ptx", "tiny", "sm_75")
    assert kernel["registers"] > 0
    for key in ("spill_bytes", "stack_bytes", "shared_bytes", "widest_global_bytes", "narrowest_global_bytes"):
        assert isinstance(kernel[key], int)
    assert document["problems"] == []


def test_cubins_and_disassemblies_are_read_too(klab, tmp_path):
    cubin = assemble(TINY.read_text(), "sm_75").cubin
    (tmp_path / "tiny.cubin").write_bytes(cubin)
    (tmp_path / "tiny.sass").write_text(disassemble(cubin))
    by_cubin, by_sass = (json.loads(klab("inspect", f"tiny.{end}", "--json").out) for end in ("cubin", "sass"))
    assert by_cubin["kernels"][0]["instructions"] == by_sass["kernels"][0]["instructions"]
    assert by_cubin["kernels"][0]["registers"] > 0
    assert by_sass["kernels"][0]["registers"] is None
    assert by_sass["kernels"][0]["threads"] is None
    assert "/*0000*/" in klab("inspect", "tiny.cubin", "--show", "sass").out


def test_of_several_kernels_each_remark_names_its_kernel(capsys):
    module = parse_sass(disassemble(assemble(TINY.read_text(), "sm_75").cubin))
    (tiny,) = facts_from_sass(module)
    other = dataclasses.replace(tiny, name="other", loops=[], remarks=["too slow"])
    show_facts([tiny, other], [], Console(width=200))
    several = capsys.readouterr().out
    assert re.search(r"threads per block +not known +not known", several)
    assert re.search(r"^ tiny: .*loop at", several, re.MULTILINE)
    assert " other: too slow" in several
    show_facts([other], [], Console(width=200))
    assert "\n too slow" in capsys.readouterr().out


def test_ptx_is_explained_in_the_terminal(klab):
    seen = klab("inspect", TINY, "--show", "explain")
    assert seen.code == 0
    assert "thread and block index  tiny.cu:11" in seen.out
    assert "only where %p1 is true: loads 16 bytes" in seen.out
    assert "unknown" not in seen.out


class Reader(html.parser.HTMLParser):
    """The page's text and tags; open tags must be closed in order."""

    VOID = ("meta", "!doctype", "br")

    def __init__(self):
        super().__init__()
        self.open, self.text, self.tags, self.attributes = [], "", [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_the_page_is_whole_escaped_and_needs_nothing_else(klab, tmp_path):
    nasty = TINY.read_text().replace("tiny.cu", "<script>alert(1)</script>&.cu").replace("dynamic", "$L<b>")
    (tmp_path / "a<i>b.ptx").write_text(nasty)
    seen = klab("inspect", "a<i>b.ptx", "--html", "out.html")
    assert seen.code == 0
    nowhere = klab("inspect", "a<i>b.ptx", "--html", "nowhere/out.html")
    assert (nowhere.code, "--html nowhere/out.html cannot be written" in nowhere.err) == (2, True)
    page = (tmp_path / "out.html").read_text()
    reader = Reader()
    reader.feed(page)
    assert reader.open == []
    assert not {"script", "i", "link", "img"} & set(reader.tags)
    assert not [name for name, _ in reader.attributes if name in ("src", "href", "onload")]
    assert "http" not in page
    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page
    assert "only where %p1 is true: loads 16 bytes" in reader.text
    assert "a<i>b.ptx" in reader.text


def test_two_files_are_compared(klab, tmp_path):
    (tmp_path / "other.ptx").write_text(TINY.read_text().replace("ex2.approx.ftz.f32", "sin.approx.ftz.f32"))
    seen = klab("inspect", TINY, "other.ptx", "--diff")
    assert seen.code == 0
    for part in (
        "- ex2.approx.ftz.f32 %f7, %f6",
        "+ sin.approx.ftz.f32 %f7, %f6",
        "instructions the same",
        "PTX, aligned",
    ):
        assert part in seen.out
    diffs = json.loads(klab("inspect", TINY, "other.ptx", "--diff", "--show", "sass", "--json").out)
    assert {row["kind"] for row in diffs[0]["rows"]} > {"same"}


def test_a_target_the_assembler_does_not_know_leaves_the_ptx(klab, tmp_path):
    (tmp_path / "new.ptx").write_text(TINY.read_text().replace("sm_75", "sm_999"))
    seen = klab("inspect", "new.ptx")
    assert seen.code == 0
    assert "no ptxas on this machine can assemble this PTX for sm_999" in seen.out
    assert re.search(r"registers per thread +not known", seen.out)
    assert "PTX instructions" in seen.out


def test_lines_that_cannot_be_read_are_named(klab, tmp_path):
    (tmp_path / "bad.ptx").write_text(TINY.read_text().replace("mov.u32 %r8, 0;", "mov.u32 %r8, [;"))
    seen = klab("inspect", "bad.ptx")
    assert seen.code == 0
    assert re.search(r"line \d+ could not be read: 'mov.u32 %r8, \[", seen.out)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "nothing to inspect"),
        (["nowhere.ptx"], "No such file"),
        (["empty.ptx"], "contains no kernel"),
        (["text.cubin"], "text.cubin: this is not a cubin: it does not begin like an ELF file"),
        (["words.txt"], "words.txt holds nothing to inspect: the names of op files end in .py"),
        (["kernel.cu"], "is CUDA C++: klab inspect reads an op file that calls kl.cuda.kernel"),
        (["tiny.txt"], "looks like a .ptx file: rename it to tiny.txt.ptx"),
        (["tiny.ptx", "--arch", "sm_80"], "--arch belongs to an op, and tiny.ptx is compiled already"),
        (["tiny.ptx", "--impl", "triton"], "--impl belongs to an op"),
        (["tiny.ptx", "--pass", "both"], "--pass belongs to an op"),
        (["empty.sass"], "contains no SASS"),
        (["library.so"], "cuobjdump -xelf"),
        (["gelu", "tiny.ptx"], "not a file of machine code"),
        (["tiny.ptx", "--show", "exlain"], "did you mean explain"),
        (["tiny.ptx", "--kernel", "tinny"], "did you mean tiny"),
        (["tiny.ptx", "--diff"], "two files"),
        (["tiny.sass", "--show", "explain"], "only PTX can be explained"),
    ],
)
def test_a_bad_request_is_one_sentence(klab, tmp_path, args, message):
    (tmp_path / "tiny.txt").write_text(TINY.read_text())
    (tmp_path / "words.txt").write_text("nobody:x:65534\n")
    (tmp_path / "kernel.cu").write_text("__global__ void k() {}\n")
    for name, text in {"empty.ptx": "", "empty.sass": "", "text.cubin": "hello"}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "tiny.ptx").write_text(TINY.read_text())
    (tmp_path / "tiny.sass").write_text("Function : k\n/*0000*/ EXIT ;\n")
    seen = klab("inspect", *args)
    assert (seen.code, seen.out) == (2, "")
    assert message in seen.err
    assert "Traceback" not in seen.err


LIBRARY = ".global .align 1 .u8 _ZN4cuda3std3__417integral_constantIbLb{}EE5valueE = 1;\n"


def test_constants_of_headers_are_recognised_and_folded(klab, tmp_path):
    text = TINY.read_text()
    own = ".const .align 4 .f32 cudalike;\n.global .align 4 .b8 __cudart_i2opi_f[24];\n"
    at = text.index(".extern")
    (tmp_path / "tiny.ptx").write_text(text[:at] + own + "".join(map(LIBRARY.format, range(9))) + text[at:])
    seen = klab("inspect", "tiny.ptx", "--show", "explain", "--html", "page.html")
    assert "cudalike: 4 bytes of constant memory\n" in seen.out
    assert "__cudart_i2opi_f: 24 bytes of global memory, from CUDA's headers; and 9 more like it" in seen.out
    assert seen.out.count("integral_constant") == 0
    page = (tmp_path / "page.html").read_text()
    assert "and 9 more like it" in page
    assert "integral_constant" not in page
    body = re.search(r"\nbody \{(.*?)\}", page, re.DOTALL)[1]
    assert "overflow-wrap: anywhere" in body  # a mangled name has no place to break


MANGLED = ("_Z13softmax_blockIfLi4EEvPT_", "_Z12softmax_loopIfEvPT_", "_ZN4mine5scaleEPf", "tiny")


def test_a_mangled_kernel_is_picked_by_its_plain_name(klab, tmp_path):
    text = TINY.read_text()
    head, body = text[: text.index(".visible")], text[text.index(".visible") :]
    both = head + "".join(body.replace("tiny", name) for name in MANGLED[:2])
    (tmp_path / "two.ptx").write_text(both)
    seen = klab("inspect", "two.ptx", "--kernel", "softmax_loop", "--json")
    assert [k["name"] for k in json.loads(seen.out)["kernels"]] == [MANGLED[1]], seen.err
    seen = klab("inspect", "two.ptx", "--kernel", "softmax_lop")
    assert "did you mean softmax_loop" in seen.err
