"""Cases: labels, JSON, dtypes."""

import pytest

from kernellab.base.errors import UserError
from kernellab.declaration.case import Case, parse_dtype


def test_dtypes_have_short_names_and_typos_get_a_hint():
    assert parse_dtype("bf16") == "bfloat16"
    with pytest.raises(UserError, match="did you mean float32"):
        parse_dtype("flot32")


def test_a_case_survives_json_and_reads_as_attributes():
    case = Case({"...": (2, 3), "N": 4}, "float32", {"approximate": "tanh"}, device="cuda")
    again = Case.from_json(case.to_json())
    assert again == case
    assert again.key == case.key
    assert (case.N, case.approximate, case.shape) == (4, "tanh", (2, 3, 4))
    assert case.label == "2×3×4 · float32 · approximate=tanh"
    with pytest.raises(AttributeError, match="no dim or option"):
        _ = case.nothing


def test_replacing_one_field_keeps_the_others():
    case = Case({"N": 4}, "float32", {"p": 1}, device="cuda")
    assert case.with_(options={}) == Case({"N": 4}, "float32", {}, device="cuda")
    assert case.with_(layout="strided").contiguous is False
