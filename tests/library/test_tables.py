"""Which implementation serves: readable tables, the user's before ours, and PyTorch where nothing else can."""

import tomllib

import pytest
import torch

from kernellab.base.errors import UserError
from kernellab.library import rules as table_rules
from kernellab.library import tables
from support.serving import OPERATORS, WITH_MATMUL, own_table, rule

CPU = torch.device("cpu")
FILES = sorted(table_rules.SHIPPED.glob("*.toml"))


@pytest.fixture
def gpu_of(monkeypatch):
    """Pretend that the GPU has a compute capability."""

    def pretend(*capability):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
        return torch.device("cuda", 0)

    return pretend


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_rule_of_a_shipped_table_names_what_exists_and_says_what_it_is_based_on(path):
    for op, rules in tomllib.loads(path.read_text()).items():
        implementations = OPERATORS[op].choice.implementations
        for entry in rules:
            assert entry["forward"] in {*implementations, table_rules.PYTORCH}
            assert entry["backward"] in {*implementations, table_rules.PYTORCH}
            assert set(entry["dtypes"]) <= {"float32", "float16", "bfloat16", "float64"}
            assert entry["basis"].startswith(("measured 20", "not measured: "))


@pytest.mark.parametrize("path", [path for path in FILES if path.stem != "cpu"], ids=lambda path: path.stem)
def test_on_a_gpu_every_op_is_served_for_rows_of_any_width_by_implementations_for_gpus(path):
    table = table_rules.read_table(path)
    for op in OPERATORS:
        for dtype in ("float32", "bfloat16", "float16"):
            last = table[op, dtype][-1]
            assert last.applies(columns=1 << 40, elements=1)
            # Those with a matmul are not measured yet.
            expected = {table_rules.PYTORCH} if op in WITH_MATMUL else {"triton", "cuda"}
            assert {last.forward, last.backward} <= expected
        assert (op, "float64") not in table


@pytest.mark.parametrize("op", OPERATORS)
def test_compiled_code_for_a_gpu_calls_what_the_tables_let_serve(op, monkeypatch):
    choice = OPERATORS[op].choice
    assert (("cuda", torch.bfloat16) in choice._in_compiled_code) == (op not in WITH_MATMUL)


def test_a_gpu_without_a_table_of_its_own_has_the_common_one_and_an_old_one_none(gpu_of):
    assert table_rules.shipped_name(tables.architecture(gpu_of(9, 0))) == "sm_90"
    assert table_rules.shipped_name(tables.architecture(gpu_of(12, 1))) == "cuda"
    assert tables.architecture(gpu_of(7, 5)) is None
    assert tables.rules("softmax", torch.float32, gpu_of(7, 5)) == ()


def test_only_pytorch_serves_on_gpus_of_amd_and_on_other_devices(gpu_of, monkeypatch):
    device = gpu_of(9, 0)
    assert tables.rules("softmax", torch.float32, device)
    monkeypatch.setattr(torch.version, "hip", "6.0")
    assert tables.rules("softmax", torch.float32, device) == ()
    assert tables.rules("softmax", torch.float32, torch.device("meta")) == ()


def test_without_a_compiler_the_rules_for_cpp_do_not_count(monkeypatch):
    with own_table(rule("softmax")):
        assert tables.rules("softmax", torch.float32, CPU)[0].forward == "cpp"
    monkeypatch.setattr(table_rules.tools, "cxx", lambda: None)
    with own_table(rule("softmax")):
        assert tables.rules("softmax", torch.float32, CPU) == ()


def test_the_first_rule_that_applies_decides_and_those_of_the_user_come_first():
    with own_table(rule("softmax", forward="triton", columns_up_to=64, elements_from=100)):
        first, *others = tables.rules("softmax", torch.float32, CPU)
        assert first.forward == "triton"
        assert all(other.forward == "cpp" for other in others)  # the shipped ones
    assert [first.applies(64, 100), first.applies(65, 100), first.applies(64, 99)] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[softmax", "cannot read the table"),
        ('softmax = "cpp"', r"a rule of softmax is \[\[softmax\]\] with dtypes, forward and backward"),
        ('[[softmax]]\nforward = "cpp"', "with dtypes, forward and backward"),
        (rule("softmax") + 'columns_from = "3"', "columns_from of a rule of softmax cannot be '3'"),
        (rule("softmax") + "columns = 3", "a rule of softmax has no columns: did you mean columns_"),
    ],
)
def test_a_table_that_cannot_be_understood_is_an_error_that_names_it(text, message, tmp_path):
    path = tmp_path / "cpu.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        table_rules.read_table(path)
    assert str(path) in str(error.value)
