"""Sentences and tables of plain lines, fitted to a terminal."""

from kernellab.reporting.text.layout import Layout


def test_a_pipe_gets_sentences_as_they_are():
    assert Layout(columns=None).sentences(["a " * 100]) == ["a " * 100]


def test_wrapped_sentences_keep_their_indent_and_continue_two_further():
    assert Layout(columns=12).sentences(["  one two three four"]) == ["  one two", "    three", "    four"]


def test_columns_are_left_out_from_the_right_unless_others_are_named_to_go_first():
    head, body = ["operator", "calls", "time", "share"], [["aten::mm", "100", "12.5 ms", "54 %"]]
    assert Layout(columns=40).table(head, body)[0].split() == head
    assert Layout(columns=30).table(head, body)[0].split() == ["operator", "calls", "time"]
    assert Layout(columns=30).table(head, body, drop_first=[1])[0].split() == ["operator", "time", "share"]


def test_names_are_cut_to_the_longest_that_was_asked_for():
    (_, row) = Layout(name=10, columns=None).table(["operator", "calls"], [["aten::convolution_backward", "3"]])
    assert row == "aten::con…      3"
