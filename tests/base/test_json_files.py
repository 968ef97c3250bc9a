import os

import pytest

from kernellab.base.json_files import MOST_LEVELS, Refused, parse, read_bytes


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"x": -Infinity}', "1e999", "-1e400", "9" * 20, "9" * 5000])
def test_numbers_without_end_are_refused(text):
    with pytest.raises(Refused):
        parse(text.encode())


@pytest.mark.parametrize("text", ["1e308", "-1.5", str(2**63 - 1), str(-(2**63)), "0.1", "true", '"NaN"'])
def test_ordinary_values_are_what_python_reads(text):
    assert parse(text.encode()) == __import__("json").loads(text)


def test_nesting_is_limited():
    assert parse(b"[" * MOST_LEVELS + b"]" * MOST_LEVELS)
    for levels in (MOST_LEVELS + 1, 500, 5_000_000):
        with pytest.raises(Refused, match="nested"):
            parse(b"[" * levels + b"]" * levels)


@pytest.mark.parametrize("text", [rb'"a\ud800b"', b'"a\xed\xa0\x80b"', rb'{"\udfff": 1}'])
def test_halves_of_characters_become_the_replacement_character(text):
    value = parse(text)
    assert "\ufffd" in str(value)
    str(value).encode()


def test_whole_characters_stay():
    assert parse(rb'"\ud83d\ude00 \u00e9"') == "\U0001f600 \u00e9"
    assert parse(rb'["\ud83d\ude00", "\ud800"]') == ["\U0001f600", "\ufffd"]


def test_only_ordinary_files_of_limited_size_are_read(tmp_path):
    file = tmp_path / "file"
    file.write_bytes(b"12345")
    assert read_bytes(file) == read_bytes(file, most=5) == b"12345"
    with pytest.raises(Refused, match="larger"):
        read_bytes(file, most=4)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    for name in ("pipe", "zeros"):
        with pytest.raises(Refused, match="ordinary"):
            read_bytes(tmp_path / name)
    with pytest.raises(OSError, match="directory"):
        read_bytes(tmp_path / "missing" / "file")
