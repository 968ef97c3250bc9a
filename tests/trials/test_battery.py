"""The battery: what it tries, what it lets pass, and that nothing trivial passes."""

import collections
import io

import pytest
import torch
from rich.console import Console

import kernellab as kl
from kernellab import cli
from kernellab.base.errors import UserError
from kernellab.checking.examiner import Examiner
from kernellab.checking.judge import judge_values
from kernellab.checking.oracle import CannotCheck, Wrong
from kernellab.cli import measure
from kernellab.declaration.case import ELLIPSIS, Case
from kernellab.declaration.passes import NotDifferentiable
from kernellab.reporting.terminal.results import show
from kernellab.trials import layouts
from kernellab.trials import tensors as material
from kernellab.trials.battery import Battery, for_compile, pairwise
from kernellab.trials.guard_bands import Fence, Fenced
from kernellab.trials.layouts import FAR, LAYOUTS
from kernellab.trials.trial import KINDS, Trial
from kernellab.trials.values import VALUES

CPU = torch.device("cpu")
SHIPPED = ("gelu", "softmax", "square", "add", "matmul")


def trials(op, **how):
    return Battery(op, "cpu", **how).trials()


# What is tried -----------------------------------------------------------------------------------------


def test_every_named_dim_goes_through_the_sizes_alone():
    seen = collections.defaultdict(set)
    for trial in trials(kl.ops.matmul):
        if trial.kind == "sizes":
            for dim, size in trial.case.dims.items():
                seen[dim].add(size)
    for dim in "MKN":
        assert {0, 1, 2, 3, 97, 127, 128, 129, 1023, 1024, 1025} <= seen[dim], dim
    assert 262144 in seen["K"], "reduced dims go further"


def test_elementwise_ops_are_tried_in_up_to_four_dims():
    ranks = {len(t.case.shape) for t in trials(kl.ops.gelu) if t.kind == "ranks"}
    assert {1, 2, 3, 4} <= ranks


def test_layouts_and_values_come_on_one_input_and_then_on_all():
    found = [t for t in trials(kl.ops.add) if t.kind in ("layouts", "values")]
    for what, names in (("layouts", LAYOUTS), ("values", VALUES)):
        for name in names:
            on = {tuple(getattr(t, what)) for t in found if name in getattr(t, what).values()}
            assert {("x",), ("y",), ("x", "y")} <= on, name


def test_there_are_large_and_far_trials_and_room_is_asked_for():
    found = trials(kl.ops.gelu)
    (large,) = [t for t in found if t.kind == "large"]
    assert large.case.shape[0] * large.case.shape[1] > 2**31
    assert {t.layouts["x"] for t in found if t.kind == "strides"} == set(FAR)
    seen = Examiner(kl.ops.gelu, seed=0, device=CPU).examine(kl.ops.gelu["torch"], large)
    assert seen["status"] == "ok" or "GiB of memory" in seen["reason"]


def test_the_quick_battery_is_small_and_the_compiled_one_smaller():
    assert len(trials(kl.ops.gelu, quick=True)) < len(trials(kl.ops.gelu)) / 2
    few = for_compile(trials(kl.ops.gelu))
    assert len(few) == 10
    assert len({t.kind for t in few}) >= 6


def test_only_the_dtypes_asked_for():
    assert {t.case.dtype for t in trials(kl.ops.gelu, dtypes=["bfloat16"])} == {"bfloat16"}


def test_where_is_honoured():
    @kl.op(
        args=dict(q=kl.tensor("H D"), k=kl.tensor("G D")),
        dims=dict(G="H"),
        where=lambda c: c.G > 0 and c.H % c.G == 0,
        cases=kl.cases(H=[8], D=[16], dtype=["float32"]),
    )
    def groups(q, k):
        return q * k.repeat(q.shape[0] // k.shape[0], 1)

    found = trials(groups)
    assert len(found) > 60
    assert all(t.case.G > 0 and t.case.H % t.case.G == 0 for t in found)


def test_indices_are_valid_and_sentinels_are_among_them():
    @kl.op(
        args=dict(x=kl.tensor("M V"), at=kl.index("M", below="V", sentinel="skip")),
        options=dict(skip=[-100]),
        cases=kl.cases(M=[8], V=[16], dtype=["float32"]),
    )
    def pick(x, at, *, skip=-100):
        return x.gather(1, at.clamp_min(0)[:, None])[:, 0] * (at != skip)

    found = [t for t in trials(pick) if t.kind == "indices"]
    assert len(found) == 4
    for trial in found:
        at = material.make(pick, trial, 0, CPU, bands=True).inputs["at"]
        assert bool(((at >= 0) & (at < trial.case.V) | (at == -100)).all())
    only = next(t for t in found if t.values["at"] == "only sentinels")
    assert bool((material.make(pick, only, 0, CPU, bands=True).inputs["at"] == -100).all())


def test_options_meet_in_pairs():
    options = {name: [0, 1, 2] for name in "abcd"}
    chosen = pairwise(options)
    assert len(chosen) <= 20
    for a in "abcd":
        for b in "abcd":
            if a < b:
                assert {(c[a], c[b]) for c in chosen} == {(i, j) for i in range(3) for j in range(3)}


def test_kinds_are_known_and_trials_differ():
    for name in SHIPPED:
        found = trials(getattr(kl.ops, name))
        assert {t.kind for t in found} <= set(KINDS)
        assert len({t.key for t in found}) == len(found)


# How inputs lie ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [*LAYOUTS, "channels last"])
def test_a_layout_keeps_the_values(layout):
    x = torch.randn(2, 3, 5, 8)
    laid = layouts.lay(x, layout, Fence())
    assert laid.shape == x.shape
    if "expanded" not in layout:
        assert torch.equal(laid, x)
    assert laid.stride() != x.stride() or laid.storage_offset() > 0


def test_misaligned_is_misaligned_and_the_others_begin_on_sixteen_bytes():
    x = torch.randn(8, 64)
    assert layouts.lay(x, "misaligned", Fence()).data_ptr() % 16 == 4
    assert layouts.lay(x, "contiguous", Fence()).data_ptr() % 16 == 0


def test_what_surrounds_an_input_is_poison():
    fence = Fence()
    laid = layouts.lay(torch.ones(4, 8), "sliced columns", fence)
    whole = laid.as_strided((laid.untyped_storage().nbytes() // 4,), (1,), 0)
    assert whole.isnan().sum() == whole.numel() - 32 > 12
    assert not fence.broken()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_write_one_element_out_of_bounds_breaks_the_fence(dtype, count):
    for distance in (-1, count):
        fence = Fence()
        room = fence.room(count, dtype, CPU)
        room.zero_()
        assert not fence.broken()
        whole = fence._rooms[0][0].view(torch.uint8)
        start = (1 << 14) + distance * dtype.itemsize
        whole[start : start + dtype.itemsize] = 0
        assert fence.broken()


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.empty(3, 5),
        torch.empty_like,
        lambda x: x.new_empty(7),
        lambda x: torch.empty_strided((2, 3), (1, 2)),
        lambda x: torch.empty(2, 3, 4, 4, memory_format=torch.channels_last),
    ],
)
def test_fresh_memory_is_fenced_and_full_of_poison(make):
    x = torch.randn(4, 6)
    with Fenced(Fence()):
        made = make(x)
    like = make(x)
    assert (made.shape, made.stride(), made.dtype) == (like.shape, like.stride(), like.dtype)
    assert bool(made.isnan().all())
    assert made.storage_offset() == 0


def test_zeros_are_zeros_behind_a_fence_too():
    with Fenced(Fence()):
        assert torch.zeros(5).sum() == 0
        assert torch.full((3,), 2.5).tolist() == [2.5] * 3
        assert torch.ones_like(torch.zeros(2, dtype=torch.int32)).tolist() == [1, 1]


# Nothing trivial passes --------------------------------------------------------------------------------


def _substitutes(y):
    """What a lazy kernel could return: nothing, the average, the right numbers in the wrong places."""
    finite = y[y.isfinite()]
    yield "zeros", torch.zeros_like(y)
    yield "mean", torch.full_like(y, float(finite.double().mean()) if finite.numel() else 0.0)
    if y.dim():
        yield "permutation", y.roll(1, dims=-1) if y.shape[-1] > 1 else y.roll(1, dims=0)


def _differs(truth, number, other):
    """Whether a substitute is anything else than the result, by more than what passes for rounding anywhere."""
    y = truth.peer[number]
    scale = max(float(torch.where(y.isfinite(), y, 0).double().abs().max()), truth.floors[number]) or 1.0
    allowed = (2 * truth.peer_errors[number].max + 5) * torch.finfo(y.dtype).eps * scale
    apart = (y.double() - other.double()).abs().nan_to_num(0.0, posinf=0.0)
    patterns = (y.isnan() != other.isnan()) | (y.isinf() != other.isinf())
    return bool((apart > allowed).any()) or bool(patterns.any())


@pytest.mark.parametrize("name", SHIPPED)
def test_zeros_the_mean_and_a_permutation_are_called_wrong(name):
    op = getattr(kl.ops, name)
    examiner = Examiner(op, seed=0, device=CPU)
    op_way = op["torch"]
    judged, tried = collections.Counter(), collections.Counter()
    missed = []
    for trial in trials(op):
        tried[trial.kind, trial.case.dtype] += 1
        if trial.call != "plainly" or trial.kind in ("large", "strides") or tried[trial.kind, trial.case.dtype] > 12:
            continue
        try:
            truth = examiner.truth(trial)
        except (CannotCheck, NotDifferentiable, material.Pointless):
            continue
        impostor = op.impls.get("manual", op_way)
        impostor = type(impostor)(op, "impostor", impostor.fn, impostor.kind)
        for number, y in enumerate(truth.peer):
            for what, fake in _substitutes(y):
                if not y.numel() or not _differs(truth, number, fake):
                    continue
                judged[trial.kind, trial.case.dtype, what] += 1
                outputs = (*truth.peer[:number], fake, *truth.peer[number + 1 :])
                try:
                    judge_values(op, impostor, outputs, truth, of=trial.of, specials=True)
                    missed.append(f"{what} for result {number}: {trial.label}")
                except Wrong:
                    pass
    assert not missed, missed[:10]
    for what in ("zeros", "mean", "permutation"):
        for kind in ("sizes", "layouts", "values", "gradients"):
            assert judged[kind, "float32", what], (kind, what)
        for dtype in op.dtypes:
            assert judged["values", dtype, what], (dtype, what)


# Through the command -----------------------------------------------------------------------------------


def test_a_battery_is_recorded_shown_and_decides_the_exit_code(klab, tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(
        "import torch, kernellab as kl\n"
        "@kl.op(cases=kl.cases(shape=[(8, 64)], dtype=['float32']))\n"
        "def triple(x): return x * 3\n"
        "@triple.impl('good')\n"
        "def _(x): return 3 * x\n"
        "@triple.impl('assumes-contiguous')\n"
        "def _(x): return x.as_strided(x.shape, torch.empty(x.shape).stride()) * 3 if x.numel() else x * 3\n"
    )
    seen = klab("check", file, "--impl", "good,assumes*", "--quick", "--json")
    assert seen.code == 1
    good, bad = (next(b for b in seen.record["batteries"] if b["impl"] == n) for n in ("good", "assumes-contiguous"))
    assert (good["status"], good["failures"]) == ("ok", [])
    assert good["tried"] == good["passed"] > 40
    assert bad["status"] in ("wrong", "error")
    assert "layouts" in {f["kind"] for f in bad["failures"]} <= {"layouts", "gradients"}
    assert bad["passed"] < bad["tried"]
    out = Console(file=io.StringIO(), width=200)
    show(seen.record, out)
    assert "the battery" in out.file.getvalue()
    assert "assumes-contiguous  wrong: layouts:" in out.file.getvalue()
    assert klab("check", file, "--impl", "assumes*", "--shape", "8x64").code == 0, "a shape asks for that alone"


@pytest.mark.parametrize(
    ("args", "battery"), [((), True), (("--shape", "8x64"), False), (("--N", "9"), False), (("--declared",), False)]
)
def test_whoever_asks_for_something_particular_gets_no_battery(args, battery):
    words = ["check", "softmax", *args]
    asked, rest = cli.parser(words).parse_known_args(words)
    assert ("battery" in measure._settings(asked, rest)["stages"]) is battery


def test_a_way_that_kills_its_worker_in_the_battery_costs_only_itself(klab, tmp_path):
    file = tmp_path / "ops.py"
    file.write_text(
        "import os, time, torch, kernellab as kl\n"
        "@kl.op(cases=kl.cases(shape=[(8, 64)], dtype=['float32']))\n"
        "def triple(x): return x * 3\n"
        "@triple.impl('good')\n"
        "def _(x): return 3 * x\n"
        "@triple.impl('dies-of-nothing')\n"
        "def _(x):\n"
        "    if x.numel() == 0: os.abort()\n"
        "    return x * 3\n"
        "@triple.impl('hangs-on-one')\n"
        "def _(x):\n"
        "    while x.numel() == 1: time.sleep(1)\n"
        "    return x * 3\n"
    )
    seen = klab("check", file, "--impl", "good,dies*,hangs*", "--quick", "--timeout", "4", "--json")
    assert seen.code == 1
    found = {b["impl"]: b for b in seen.record["batteries"]}
    assert found["good"]["status"] == "ok"
    assert found["dies-of-nothing"]["status"] == "crashed"
    assert "SIGABRT" in found["dies-of-nothing"]["failures"][0]["reason"]
    assert found["hangs-on-one"]["status"] == "timeout"


# In one's own tests ------------------------------------------------------------------------------------


def test_kl_check_passes_the_right_and_names_the_wrong():
    (found,) = kl.check(lambda x: x * x, lambda x: x.square(), quick=True)
    assert found["status"] == "ok"

    def forgets_strides(x):
        return torch.as_strided(x, x.shape, torch.empty(x.shape).stride()) ** 2 if x.numel() else x**2

    with pytest.raises(AssertionError) as raised:
        kl.check(forgets_strides, lambda x: x * x, quick=True)
    assert "trials failed" in str(raised.value)
    assert "layouts" in str(raised.value)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: kl.check(lambda x: x * x, torch.square), "its reference, square, is not a plain Python function"),
        (lambda: kl.check(lambda x: x, lambda x: x, redcues="N"), "op lambda: redcues= cannot be declared: did you mean reduces"),
        (lambda: kl.check(lambda x: x, lambda x: x, dtypes="float32"), r"write dtypes=\['float32'\]"),
        (lambda: kl.check(lambda x: x), "needs the reference beside the function"),
        (lambda: kl.check(3, lambda x: x), "what is checked is a function, or an op by itself"),
        (lambda: kl.check(kl.ops.square, lambda x: x), "takes an op, or a function and its reference"),
        (lambda: kl.check(kl.ops.square, reduces="N"), r"reduces= is declared with the op, in kl.op\(reduces=…\)"),
        (lambda: kl.check(kl.ops.square, dtypes="float32"), r"write dtypes=\['float32'\]"),
        (lambda: kl.check(kl.ops.square, impl=["manual", "tosch"]), "op square has no way 'tosch': did you mean torch"),
        (lambda: kl.check(kl.ops.square, impl="zzz"), "op square has no way 'zzz': known: compile, cpp"),
    ],
)
def test_kl_check_says_what_it_cannot_do(ask, said):
    with pytest.raises(UserError, match=said):
        ask()


def test_kl_check_takes_an_op_and_says_what_cannot_run_here():
    names = {one["impl"] for one in kl.check(kl.ops.square, impl=["torch", "manual"], quick=True)}
    assert names == {"torch", "manual"}
    with pytest.raises(UserError, match="needs a GPU"):
        kl.check(kl.ops.square, impl="cuda", device="cpu")


def test_trials_survive_json():
    trial = next(t for t in trials(kl.ops.gelu) if t.layouts)
    assert Trial(**{**trial.to_json(), "case": Case.from_json(trial.to_json()["case"])}).key == trial.key
    assert ELLIPSIS in trial.case.dims
