"""Scripts that reproduce a failure: the user's own names and values, and no kernellab where it is not needed."""

import re

import pytest

import kernellab as kl
from kernellab.activity.untuned import UntunedRun
from kernellab.checking.examiner import Examiner
from kernellab.checking.outcome import Outcome
from kernellab.declaration.case import Case
from kernellab.declaration.targets import Target, load
from kernellab.reproduction.script import write_script
from kernellab.trials.trial import Trial
from support.klab import OPFILES
from support.trying import CPU, run_without_kernellab

FILE = """
import enum
import functools
import torch
import kernellab as kl
from beside_named import *


class Mode(enum.Enum):
    PLUS = "+"
    MINUS = "-"


def lay_out(t):
    return t * two()


impl = 1.0
doubled = functools.partial(torch.mul, other=2)


@kl.op(
    args=dict(g=kl.tensor("M N"), torch_=kl.tensor("N"), same=kl.index("M", below="M", sentinel=-1)),
    options=dict(
        f=[torch.sin, lay_out, doubled, OPTIONS],
        mode=[Mode.PLUS, Mode.MINUS],
        top=[float("inf"), float("-inf")],
        kind=[torch.float32, torch.device("cpu"), ("a", 1.5), max],
    ),
    cases=kl.cases(M=[8], N=[8]),
)
def reference(g, torch_, same, *, f=torch.sin, mode=Mode.PLUS, top=float("inf"), kind=None):
    return (f(g) * impl + (torch_ if mode is Mode.PLUS else -torch_)).clamp(max=top)


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
    outcome = Examiner(op, seed=0, device=CPU).examine(op["wrong"], trial)
    return write_script(op, op["wrong"], trial, outcome, seed=0, interpreted=False)


def worst_difference(text, capsys):
    exec(text, {})
    return float(re.fullmatch(r"worst difference: (\S+)\n", capsys.readouterr().out)[1])


def test_names_and_values_of_the_users_file_are_kept(named, capsys):
    op = named()
    lists = (op.options["f"], op.options["mode"], op.options["top"], op.options["kind"])
    texts = []
    for at in range(4):
        f, mode, top, kind = (values[at % len(values)] for values in lists)
        script = reproduced(op, f=f, mode=mode, top=float("inf") if at == 2 else top, kind=kind)
        assert "kernellab" not in script.text
        texts.append(script.text)
    joined = "\n".join(texts)
    for argument in ("f=torch.sin", "f=lay_out", "f=doubled", "f=torch.cos", "mode=Mode.MINUS", 'top=float("-inf")'):
        assert argument in joined
    for argument in ("kind=torch.float32", "kind=torch.device('cpu')", "kind=('a', 1.5)", "kind=max"):
        assert argument in joined
    assert worst_difference(texts[2], capsys) == pytest.approx(1)


def test_a_value_without_a_name_is_taken_from_the_op(named, capsys):
    op = named("lambda t: t * 3")
    script = reproduced(op, f=op.options["f"][3])
    assert "# kernellab is needed: the value of f has no name in the op's file" in script.text
    assert "f=op.options['f'][3]" in script.text
    assert worst_difference(script.text, capsys) == pytest.approx(1)


def test_an_error_about_the_end_of_memory_is_the_same_error(tmp_path):
    (tmp_path / "strided.py").write_text(
        "import torch, kernellab as kl\n\n\n@kl.op(args=dict(x=kl.tensor('M')))\ndef f(x):\n    return x * 1\n\n\n"
        "f.impl('flat')(lambda x: torch.as_strided(x, x.shape, (1,)) * 1)\n"
    )
    op = load(Target("strided", file=str(tmp_path / "strided.py")))["f"]
    trial = Trial("search", Case({"M": 3}, "float32"), layouts={"x": "expanded columns"})
    outcome = Examiner(op, seed=0, device=CPU).examine(op["flat"], trial)
    assert (outcome.status, "setStorage" in outcome.reason) == ("error", True)
    text = write_script(op, op["flat"], trial, outcome, seed=0, interpreted=False).text
    assert "kernellab" not in text
    with pytest.raises(RuntimeError) as raised:
        exec(text, {})
    assert str(raised.value).splitlines()[0] in outcome.reason


TUNED = """
import kernellab as kl, triton, triton.language as tl

@kl.op(args=dict(x=kl.tensor("N")))
def double(x):
    return x * 2

@triton.autotune([triton.Config({"BLOCK": 64, "FACTOR": f}) for f in (2.0, 3.0)], key=["n"])
@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr, FACTOR: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, at < n) * FACTOR, at < n)

@double.impl("tuned", kind="triton")
def _(x):
    y = x.new_empty(x.shape)
    scale[(triton.cdiv(x.numel(), 64),)](x, y, x.numel())
    return y
"""


@pytest.mark.parametrize(("factor", "is_wrong"), [(2.0, False), (3.0, True)])
def test_an_autotuned_kernel_runs_with_the_configuration_of_the_trial(factor, is_wrong, tmp_path):
    (tmp_path / "tuned.py").write_text(TUNED)
    op = load(Target("tuned", file=str(tmp_path / "tuned.py")))["double"]
    settings = {"BLOCK": 64, "FACTOR": factor, "num_warps": 4, "num_ctas": 1, "num_stages": 3}
    outcome = Outcome("wrong", "values:", untuned=(UntunedRun("scale", tuple(settings.items()), 2),))
    trial = Trial("search", Case({"N": 100}, "float32"))
    done = run_without_kernellab(write_script(op, op["tuned"], trial, outcome, seed=0, interpreted=True).text, tmp_path)
    worst = re.search(r"worst difference: (\S+)", done.stdout)
    assert (float(worst[1]) > 0) is is_wrong


@pytest.fixture
def blend():
    return load(Target("searched", file=str(OPFILES / "searched.py")))["blend"]


def test_gradients_and_errors_have_scripts_too(blend, tmp_path, capsys):
    case = Case({"...": (3,), "N": 5}, "float32", {"mode": "add"})
    trial = Trial("search", case, layouts={"x": "every second element"}, pass_name="backward", upstream="expanded")
    outcome = Outcome("wrong", "values: of another implementation")
    script = write_script(blend, blend["honest"], trial, outcome, seed=0, interpreted=False)
    exec(compile(script.text, "script", "exec"), {})
    result, *gradients = capsys.readouterr().out.splitlines()
    assert float(result.removeprefix("worst difference: ")) < 1e-6
    assert gradients == ["worst difference: 0.0"] * 2
    (tmp_path / "raises.py").write_text(
        "import kernellab as kl\nfrom beside import limit\n\n@kl.op\ndef f(x):\n    return x + 0\n\n"
        "def cost(x):\n    return kl.Cost()\n\nf.impl('mine')(lambda x: x + 1 / (x.numel() - limit))\n"
    )
    (tmp_path / "beside.py").write_text("limit = 4\n")
    op = load(Target("raises", file=str(tmp_path / "raises.py")))["f"]
    trial = Trial("search", Case({"...": (4,)}, "float32"))
    outcome = Examiner(op, seed=0, device=CPU).examine(op["mine"], trial)
    script = write_script(op, op["mine"], trial, outcome, seed=0, interpreted=False)
    done = run_without_kernellab(script.text, tmp_path)
    assert "ZeroDivisionError" in done.stderr


def test_the_script_of_a_shipped_op_loads_it_with_kernellab_and_says_so():
    op = kl.ops.softmax
    trial = Trial("search", Case({"...": (3,), "N": 5}, "float32"))
    text = write_script(op, op["torch"], trial, Outcome("wrong", "values:"), seed=0, interpreted=False).text
    assert "# kernellab is needed: softmax is one of its own ops" in text
    names = {}
    exec(compile(text, "script", "exec"), names)
    assert names["off"].max() < 1e-6


DECLARED = """
import torch
import kernellab as kl

STEP = 0.25


def on_a_grid(shape, dtype, device, generator):
    return (torch.rand(shape, generator=generator, device=device) / STEP).round().to(dtype) * STEP + 1


@kl.op(args=dict(x=kl.tensor("M N", values=VALUES), w=kl.tensor("1 N/2", values=kl.positive, gradient=False)))
def root(x, w):
    return (x.sqrt() * torch.cat([w, w], -1)).log()


@root.impl("wrong", clone=True)
def _(x, w):
    return (x.sqrt() * torch.cat([w, w], -1)).log().add_(0.5)
"""


@pytest.mark.parametrize(("values", "needs"), [("on_a_grid", False), ("lambda *a: on_a_grid(*a)", True)])
@pytest.mark.parametrize("pass_name", ["forward", "backward"])
def test_the_authors_own_values_are_made_again(tmp_path, values, needs, pass_name):
    file = tmp_path / "declared.py"
    file.write_text(DECLARED.replace("VALUES", values))
    op = load(Target("declared", file=str(file)))["root"]
    trial = Trial("declared", Case({"M": 3, "N": 8}, "float32"), pass_name=pass_name)
    outcome = Examiner(op, seed=0, device=CPU).examine(op["wrong"], trial)
    assert outcome.status == "wrong", outcome.reason
    script = write_script(op, op["wrong"], trial, outcome, seed=0, interpreted=False).text
    assert ("# kernellab is needed: values= of x has no name" in script) == needs
    if not needs:
        printed = run_without_kernellab(script, tmp_path).stdout
        worst = [float(number) for number in re.findall(r"worst difference: (\S+)", printed)]
        assert worst[0] == pytest.approx(0.5, abs=1e-5)
        assert len(worst) == (1 if pass_name == "forward" else 2), "one gradient: w takes none"


IN_PLACE = """
import torch, kernellab as kl

@kl.op(args=dict(x=kl.tensor("M N"), y=kl.tensor("M N")))
def product(x, y):
    return x * y

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        ctx.save_for_backward(x.clone(), y)
        ctx.mark_dirty(x)
        return x.mul_(y)

    @staticmethod
    def backward(ctx, g):
        x, y = ctx.saved_tensors
        return -g * y, g * x

@product.impl("flipped", mutates=["x"])
def _(x, y):
    return Product.apply(x, y)

@product.impl("off", mutates=["x"])
def _(x, y):
    return x.mul_(y).add_(1)
"""


@pytest.mark.parametrize(("name", "pass_name"), [("off", "forward"), ("flipped", "backward")])
def test_the_script_of_an_implementation_that_changes_its_inputs_gives_it_copies(name, pass_name, tmp_path):
    file = tmp_path / "in_place.py"
    file.write_text(IN_PLACE)
    (op,) = load(Target("in_place", file=str(file))).values()
    trial = Trial("search", Case({"M": 3, "N": 5}, "float32"), pass_name=pass_name, layouts={"x": "transposed"})
    outcome = Examiner(op, seed=0, device=CPU).examine(op[name], trial)
    assert outcome.status == "wrong"
    script = write_script(op, op[name], trial, outcome, seed=0, interpreted=False)
    done = run_without_kernellab(script.text, tmp_path)
    differences = [float(number) for number in re.findall("worst difference: (.*)", done.stdout)]
    if name == "off":
        assert differences == [pytest.approx(1.0, abs=1e-6)]
    else:  # of the result, of x's gradient, of y's gradient
        assert [number > 1 for number in differences] == [False, True, False]
