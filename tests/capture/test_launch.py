"""A captured launch keeps the text of its sources, and where each begins in it."""

from kernellab.capture.launch import Launch, Source


def test_each_source_begins_at_its_line_of_the_joined_text():
    texts = ["\n// first\nvoid a();\n\n\n", "void b();", "\n"]
    sources = tuple(Source(f"{at}.cu", f"/{at}.cu", 1, text) for at, text in enumerate(texts))
    one = (1, 1, 1)
    launch = Launch("cuda", "k", "k", "sm_90", "H100", one, one, one, 0, {}, (), sources, {}, 0.0)
    lines = launch.source_text.split("\n")
    assert [lines[line - 1] for line in launch.source_lines] == ["", "void b();", ""]
    assert launch.source_lines == [1, 5, 7]
    assert launch.source_text == "\n// first\nvoid a();\n\nvoid b();\n\n\n"
