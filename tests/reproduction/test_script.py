"""Scripts that reproduce a failure: the same inputs, the user's own names and values, and no kernellab."""

import re

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.declaration.targets import Target, load
from kernellab.reproduction import inputs as plain
from kernellab.reproduction.call import Words
from kernellab.reproduction.literals import Names, literal
from kernellab.reproduction.script import script
from kernellab.trials import guard_bands as fences
from kernellab.trials import layouts
from kernellab.trials import trial_inputs as material
from kernellab.trials.trial import Trial
from kernellab.trials.values import INDICES, VALUES

CPU = torch.device("cpu")
NOTHING = {"status": "wrong", "reason": "values:"}


@kl.op(
    args=dict(x=kl.tensor("... N"), i=kl.index("N", below="N", sentinel="skip")),
    options=dict(skip=[-1, None]),
    dtypes=["float32", "bfloat16", "float64"],
)
def gathered(x, i, *, skip=-1):
    return x[..., i.clamp_min(0)]


def made_by_script(op, trial, seed=0):
    """The inputs that a script makes, without the call below them."""
    written = plain.lines(op, trial, NOTHING, seed, Words(Names(()), {"skip": literal(trial.case.skip)}))
    (call,) = (at for at, line in enumerate(written) if line.startswith(("got, want", "def gradients")))
    names = {"torch": torch}
    exec("\n".join(written[:call]), names)
    return names


def assert_the_same(op, trial, seed=0):
    made = made_by_script(op, trial, seed)
    for name, x in material.make(op, trial, seed, CPU, bands=True).inputs.items():
        y = made[name.replace("upstream gradient ", "above_")]
        assert (x.dtype, x.shape, x.stride()) == (y.dtype, y.shape, y.stride())
        bits = {8: torch.int64, 4: torch.int32, 2: torch.int16}[x.element_size()]
        same = torch.equal(x.contiguous().view(bits), y.contiguous().view(bits))
        assert same or (torch.equal(x.isnan(), y.isnan()) and torch.equal(x.nan_to_num(), y.nan_to_num()))
        laid = x.numel() and (name in trial.layouts or trial.upstream == "non-contiguous")
        assert not laid or (x.storage_offset(), _room(x)) == (y.storage_offset(), _room(y))


def _room(x):
    return x.untyped_storage().nbytes()


CASES = [
    Case({"...": lead, "N": n}, dtype, {"skip": skip})
    for lead, n, dtype, skip in (
        ((3,), 17, "float32", -1),
        ((), 1, "bfloat16", -1),
        ((2, 1), 8, "float64", None),
        ((0,), 5, "float32", -1),
    )
]


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_values_are_the_batterys_own(case, kind):
    assert_the_same(gathered, Trial("values", case, values={"x": kind}), seed=5)


@pytest.mark.parametrize("kind", INDICES)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_indices_are_the_batterys_own(case, kind):
    assert_the_same(gathered, Trial("indices", case, values={"i": kind}), seed=5)


@pytest.mark.parametrize("layout", [name for name in layouts.LAYOUTS if layouts.fits(name, 2)])
@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=lambda case: case.label)
def test_layouts_are_the_batterys_own_with_memory_that_ends_where_theirs_does(case, layout):
    on = {"x": layout, **({"i": layout} if layouts.fits(layout, 1) else {})}
    assert_the_same(gathered, Trial("layouts", case, layouts=on))


@pytest.mark.parametrize("upstream", material.UPSTREAM)
def test_gradients_from_above_are_the_batterys_own(upstream):
    assert_the_same(gathered, Trial("gradients", CASES[0], of="backward", upstream=upstream))


def test_what_surrounds_an_input_is_as_wide_as_kernellabs_bands():
    narrowest = min(torch.bfloat16.itemsize, torch.float16.itemsize)
    assert fences._BAND_BYTES // narrowest == plain.BAND


# Values and names of the user's own ---------------------------------------------------------------------

FILE = """
import enum
import functools
import torch
import kernellab as kl
from beside_named import *


class Mode(enum.Enum):
    PLUS = "+"
    MINUS = "-"


def lay(t):
    return t * two()


way = 1.0
doubled = functools.partial(torch.mul, other=2)


@kl.op(
    args=dict(g=kl.tensor("M N"), torch_=kl.tensor("N"), same=kl.index("M", below="M", sentinel=-1)),
    options=dict(
        f=[torch.sin, lay, doubled, OPTIONS],
        mode=[Mode.PLUS, Mode.MINUS],
        top=[float("inf"), float("-inf")],
        kind=[torch.float32, torch.device("cpu"), ("a", 1.5), max],
    ),
    cases=kl.cases(M=[8], N=[8]),
)
def reference(g, torch_, same, *, f=torch.sin, mode=Mode.PLUS, top=float("inf"), kind=None):
    return (f(g) * way + (torch_ if mode is Mode.PLUS else -torch_)).clamp(max=top)


@reference.impl("wrong")
def _(g, torch_, same, *, f=torch.sin, mode=Mode.PLUS, top=float("inf"), kind=None):
    return reference(g, torch_, same, f=f, mode=mode, top=top) + (1 if g.stride(-1) != 1 else 0)
"""


@pytest.fixture
def named(tmp_path):
    def write(one="torch.cos"):
        (tmp_path / "beside_named.py").write_text("def two():\n    return 2\n")
        (tmp_path / "named.py").write_text(FILE.replace("OPTIONS", one))
        return load(Target("named", file=str(tmp_path / "named.py")))["reference"]

    return write


def reproduced(op, **options):
    first = {name: values[0] for name, values in op.options.items()}
    trial = Trial("search", Case({"M": 3, "N": 5}, "float32", {**first, **options}), layouts={"g": "transposed"})
    observed = Examiner(op, seed=0, device=CPU).examine(op["wrong"], trial)
    return script(op, op["wrong"], trial, observed, seed=0, interpreted=False)


def worst_difference(text, capsys):
    exec(text, {})
    return float(re.fullmatch(r"worst difference: (\S+)\n", capsys.readouterr().out)[1])


def test_names_and_values_of_the_users_file_stay_what_they_are(named, capsys):
    op = named()
    lists = (op.options["f"], op.options["mode"], op.options["top"], op.options["kind"])
    texts = []
    for at in range(4):
        f, mode, top, kind = (values[at % len(values)] for values in lists)
        made = reproduced(op, f=f, mode=mode, top=float("inf") if at == 2 else top, kind=kind)
        assert "kernellab" not in made.text
        texts.append(made.text)
    joined = "\n".join(texts)
    for spelled in ("f=torch.sin", "f=lay", "f=doubled", "f=torch.cos", "mode=Mode.MINUS", 'top=float("-inf")'):
        assert spelled in joined
    for spelled in ("kind=torch.float32", "kind=torch.device('cpu')", "kind=('a', 1.5)", "kind=max"):
        assert spelled in joined
    assert worst_difference(texts[2], capsys) == pytest.approx(1)


def test_a_value_without_a_name_is_taken_from_the_op(named, capsys):
    op = named("lambda t: t * 3")
    made = reproduced(op, f=op.options["f"][3])
    assert "# kernellab is needed: the value of f has no name in the op's file" in made.text
    assert "f=op.options['f'][3]" in made.text
    assert worst_difference(made.text, capsys) == pytest.approx(1)


def test_an_error_for_want_of_memory_is_the_same_error(tmp_path):
    (tmp_path / "strided.py").write_text(
        "import torch, kernellab as kl\n\n\n@kl.op(args=dict(x=kl.tensor('M')))\ndef f(x):\n    return x * 1\n\n\n"
        "f.impl('flat')(lambda x: torch.as_strided(x, x.shape, (1,)) * 1)\n"
    )
    op = load(Target("strided", file=str(tmp_path / "strided.py")))["f"]
    trial = Trial("search", Case({"M": 3}, "float32"), layouts={"x": "expanded columns"})
    observed = Examiner(op, seed=0, device=CPU).examine(op["flat"], trial)
    assert (observed["status"], "setStorage" in observed["reason"]) == ("error", True)
    text = script(op, op["flat"], trial, observed, seed=0, interpreted=False).text
    assert "kernellab" not in text
    with pytest.raises(RuntimeError) as raised:
        exec(text, {})
    assert str(raised.value).splitlines()[0] in observed["reason"]


@pytest.mark.parametrize(
    ("m", "of", "reason", "shown"),
    [
        (3, "forward", "values: ", r"(worst difference: [0-9e.-]+\n){2}"),
        (0, "backward", "values: ", r"(worst difference: 0.0\n){3}"),
        (3, "forward", "its call on other inputs changed …", r"(.*: 3\nthe first result is as it was: True\n){2}"),
        (3, "forward", "reads outside its inputs: …", r"(.*: 0\nthe first result is as it was: True\n){2}"),
        (3, "forward", "not repeatable: ", r"(values that differ .*: 0\nthe first result is as it was: True\n){2}"),
    ],
)
def test_results_that_are_several_or_empty_have_scripts_too(m, of, reason, shown, capsys):
    @kl.op(args=dict(x=kl.tensor("M N")))
    def both(x):
        return x.sum(-1), x.square().sum(-1)

    trial = Trial("search", Case({"M": m, "N": 2}, "float32"), of=of)
    written = plain.lines(both, trial, {"status": "wrong", "reason": reason}, 0, Words(Names(()), {}))
    exec("\n".join(written), {"torch": torch, "way": both.reference, "reference": both.reference})
    assert re.fullmatch(shown, capsys.readouterr().out)
