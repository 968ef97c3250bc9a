"""The section with source, PTX and SASS: what it shows, and that a stranger's record shows nothing else."""

import json

import pytest

from kernellab.reporting.report.document import report
from kernellab.reporting.report.parts import kernel_code
from kernellab.reporting.report.sections import code
from support.reports import read_run, sample_run

TEXT_LINES = 4000


@pytest.fixture
def folder(tmp_path):
    return sample_run("code_gelu.tar.gz", "gelu", tmp_path)


def change(folder, edit):
    """Change the kernels of the record."""
    (folder / "journal.jsonl").unlink(missing_ok=True)
    record = json.loads((folder / "run.json").read_text())
    for entry in record["code"]:
        for kernel in entry["kernels"]:
            edit(kernel)
    (folder / "run.json").write_text(json.dumps(record))


def texts_of(section):
    (texts,) = section.data.values()
    return texts


def test_every_kernel_has_its_facts_and_three_texts(folder):
    section = code.section(read_run(folder, "run2-"))
    assert list(section.data) == ["run2-code-texts"]
    triton, cuda = section.values["kernels"]
    assert triton["title"] == "triton · map_flat · sm_90"
    assert ("registers", "16") in triton["facts"]
    assert ("occupancy", "100 %") in cuda["facts"]
    assert triton["cases"] == "4096×4096 · float32 · approximate=tanh"
    first = texts_of(section)[0]
    assert first["source"]["lines"][0] == "@triton.jit(do_not_specialize=CONSTANTS)"
    assert first["files"] == {
        "0": "elementwise_triton.py",
        "17": "triton.py",
        "21": "philox_triton.py",
        "43": "elementwise_triton.py",
        "63": "philox_triton.py",
        "78": "philox_triton.py",
    }
    exponential = next(at for at, line in enumerate(first["source"]["lines"]) if "tl.exp2" in line)
    (group,) = first["source"]["groups"][exponential]
    compiled = [line for line, own in zip(first["sass"]["lines"], first["sass"]["groups"], strict=True) if group in own]
    assert any("MUFU.EX2" in line for line in compiled)


def test_without_the_texts_there_is_no_section(folder):
    for file in (folder / "artifacts").iterdir():
        file.unlink()
    assert code.section(read_run(folder)) is None


def test_cases_that_share_a_kernel_share_its_entry(folder):
    (folder / "journal.jsonl").unlink()
    record = json.loads((folder / "run.json").read_text())
    other = json.loads(json.dumps(record["code"][0]))
    other["case"]["dtype"] = "bfloat16"
    record["code"].append(other)
    (folder / "run.json").write_text(json.dumps(record))
    triton, _ = code.section(read_run(folder)).values["kernels"]
    assert triton["cases"].count("4096×4096") == 2
    assert "bfloat16" in triton["cases"]


def test_titles_tell_kernels_apart(folder):
    (folder / "journal.jsonl").unlink()
    record = json.loads((folder / "run.json").read_text())
    tuned, backward = (json.loads(json.dumps(record["code"][0])) for _ in range(2))
    tuned["kernels"][0].update(tuned=[1, 2], config={"constexprs": {"BLOCK": 512}, "num_warps": 8, "num_ctas": 1})
    backward.update({"op": "silu", "pass": "backward"})
    record["code"] += [tuned, backward]
    (folder / "run.json").write_text(json.dumps(record))
    assert [kernel["title"] for kernel in code.section(read_run(folder)).values["kernels"]] == [
        "gelu · triton · map_flat · sm_90",
        "gelu · cuda · map_flat<Activation<GeluTanh>, float, 4, float*, float*> · sm_90",
        "gelu · triton · map_flat · sm_90 · BLOCK=512 num_warps=8",
        "silu · triton · map_flat · sm_90 · backward",
    ]


def test_a_long_text_is_cut_and_the_report_says_so(folder):
    sass = next((folder / "artifacts").glob("*triton*.sass"))
    sass.write_text("Function : map_flat\n" + "/*0000*/ IADD3 R1, R1, R2, RZ ;\n" * 20_112)
    section = code.section(read_run(folder))
    assert len(texts_of(section)[0]["sass"]["lines"]) == TEXT_LINES
    assert section.values["kernels"][0]["cut"] == [
        f"artifacts/{sass.name} has 20112 lines; the first {TEXT_LINES} are shown."
    ]


def test_many_kernels_are_cut_and_the_report_says_so(folder):
    (folder / "journal.jsonl").unlink()
    record = json.loads((folder / "run.json").read_text())
    (first,) = record["code"][0]["kernels"]
    record["code"][0]["kernels"] = [{**first, "name": f"k{number}"} for number in range(80)]
    (folder / "run.json").write_text(json.dumps(record))
    section = code.section(read_run(folder))
    assert len(section.values["kernels"]) == 60
    assert "more kernels than are shown" in report([read_run(folder)])


@pytest.mark.parametrize("name", ["../../secret.txt", "/etc/hostname", "artifacts/link", "artifacts", "\0", "x" * 5000])
def test_a_name_that_leads_out_of_the_run_shows_no_file(folder, name):
    (folder.parent / "secret.txt").write_text("secret")
    (folder / "artifacts" / "link").symlink_to(folder.parent / "secret.txt")
    change(folder, lambda kernel: kernel.update(files=dict.fromkeys(kernel["files"], name)))
    assert code.section(read_run(folder)) is None


def test_lines_of_sources_that_lie_are_shown_without_links(folder):
    def lie(kernel):
        for source in kernel["sources"]:
            source.update(first_line=-(10**9), text_line=10**15, file="../../etc/passwd\0")

    change(folder, lie)
    source = texts_of(code.section(read_run(folder)))[0]["source"]
    assert source["lines"][0] == "@triton.jit(do_not_specialize=CONSTANTS)"
    assert not any(source["groups"])


def test_texts_of_strangers_are_cut_and_have_no_control_characters(folder):
    for file in (folder / "artifacts").iterdir():
        file.write_bytes(b"</script><script>window.hacked = 1</script>\x1b[31m" + b"x" * 10_000 + b"\n\xff\xfe\n")
    change(folder, lambda kernel: kernel.update(name="</script>" * 500))
    section = code.section(read_run(folder))
    (line, replaced, _) = texts_of(section)[0]["source"]["lines"]
    assert len(line) == 300
    assert "\x1b" not in line
    assert replaced == "\ufffd\ufffd"
    assert len(section.values["kernels"][0]["title"]) < 150
    assert "</script><script>window" not in report([read_run(folder)])


def test_large_texts_are_read_only_as_far_as_seconds_allow(folder, monkeypatch):
    monkeypatch.setattr(kernel_code, "_MOST_BYTES_READ", 1000)
    section = code.section(read_run(folder))
    assert len(section.values["kernels"]) == 1
    assert section.values["more"]


@pytest.mark.parametrize("dims", [[], [7], [1, 2, 3, 4], [-1, 0, 10**18]])
def test_a_launch_of_any_shape_is_shown(folder, dims):
    change(folder, lambda kernel: kernel.update(grid=dims, block=dims))
    facts = dict(code.section(read_run(folder)).values["kernels"][0]["facts"])
    assert facts.get("grid", "") == "×".join(map(str, dims))
