"""A profile is printed in the terminal: the answer first, tables after."""

import pytest

from kernellab.analysis.document import analyse
from kernellab.base.errors import UserError
from kernellab.reporting.profiles.summary import lines
from kernellab.traces import kineto
from support.klab import HERE
from support.terminal import set_terminal
from support.traced import Program, Training


def test_the_first_lines_answer_and_long_names_are_cut(tmp_path):
    document = analyse(Training(tmp_path, "print", gpu_us=10).trace)
    printed = lines(document, rows=2, name_width=20)
    assert printed[0].startswith("print(loss) at train.py:18 makes the CPU wait for the GPU in every step")
    assert "Without it a step takes about" in printed[0]
    assert "" in printed[:11]
    head = printed.index("Operators")
    assert printed[head + 2].startswith("aten::mm ")
    assert printed[head + 4].startswith("… and")
    assert all(len(line.split("  ")[0]) <= 20 for line in printed[head + 2 : head + 4])
    by_count = lines(document, sort="count")
    assert by_count[by_count.index("Operators") + 2].split()[1] == str(
        max(row["count"] for row in document["operators"])
    )


@pytest.mark.parametrize("columns", [40, 60])
def test_a_narrow_terminal_gets_wrapped_sentences_and_narrow_tables(tmp_path, monkeypatch, columns):
    document = analyse(Training(tmp_path, "print", gpu_us=2).trace)
    piped = lines(document)
    set_terminal(monkeypatch, columns)
    printed = lines(document)
    assert max(map(len, piped)) > 100
    assert max(map(len, printed)) <= columns
    assert " ".join(" ".join(printed).split()).startswith(" ".join(piped[0].split()))
    kernels = printed[printed.index("Kernels") :]
    assert kernels[1].split()[:3] == ["kernel", "runs", "GPU"]
    assert any(line.startswith("A wider terminal shows: ") for line in kernels[: kernels.index("")])
    assert not any("wider" in line for line in piped)


def test_of_many_ranges_the_longest_are_shown_in_their_order():
    run = Program()
    with run.range("whole"):
        for number in range(50):
            with run.range(f"part {number}"):
                run.host(100 if number in (20, 30) else 1)
    printed = lines(analyse(run.trace()), rows=3)
    printed = printed[printed.index("Ranges, in total") :]
    assert [line.split("  1")[0].rstrip() for line in printed[2:5]] == ["whole", "  part 20", "  part 30"]
    assert printed[5:] == ["… and 48 more"]


def test_an_empty_trace_is_called_empty_once(tmp_path):
    path = tmp_path / "empty.json"
    path.write_text('{"traceEvents": []}')
    printed = "\n".join(lines(analyse(kineto.read(path))))
    assert printed.count("no events") == 1
    assert "1 ns" not in printed


def test_an_unknown_order_is_refused_with_a_suggestion():
    with pytest.raises(UserError, match="did you mean gpu"):
        lines(analyse(Program().trace()), sort="gpus")


def test_control_characters_do_not_reach_the_terminal():
    run = Program()
    with run.operator("aten::\x1b[2Jmm\n<script>"):
        run.kernel("kernel\x1b]0;title\x07" + "x" * 100_000, 5)
    printed = lines(analyse(run.trace()))
    assert not any(c in "\x1b\x07\n" for line in printed for c in line)
    assert max(map(len, printed)) < 500


@pytest.fixture(scope="module")
def matmuls():
    return analyse(kineto.read(HERE / "samples" / "matmuls_h200.json.gz"))


def test_operators_are_listed_by_shape_with_the_library_of_each_kernel(matmuls):
    printed = lines(matmuls, rows=12)
    became = printed[printed.index("Kernels of the operators") + 2 :][:12]
    products = [line.split("  ") for line in became if line.startswith("aten::matmul → aten::mm")]
    assert [row[-1].strip() for row in products] == ["21.44 ms", "343.4 µs", "56.64 µs", "4.768 µs"]
    libraries = [next(word.strip() for word in row if word.strip() in ("cuBLAS", "CUTLASS")) for row in products]
    assert libraries == ["cuBLAS", "CUTLASS", "cuBLAS", "cuBLAS"]
    sizes = (8192, 2048, 1024, 128)
    assert all(f"{size}×{size}, {size}×{size}" in line for line, size in zip(became, sizes, strict=False))
    assert any(line.startswith("aten::square → aten::pow") and "elementwise" in line for line in became)
    step = lines(analyse(kineto.read(HERE / "samples" / "training_h200.json.gz")))
    (linear,) = [line for line in step if line.startswith("aten::linear → aten::addmm")]
    assert "Memset" not in linear  # the kernel that takes most of its time


def test_most_gpu_time_is_named_with_its_share():
    printed = lines(analyse(kineto.read(HERE / "samples" / "slowed_tiny_batch_h200.json.gz")))
    assert any(line.startswith("Most GPU time: aten::addmm, 18 %") for line in printed)
