"""Searching beyond the battery: found, shrunk, reproduced without kernellab, stored and tried first next time."""

import dataclasses
import os
import re
import subprocess
import sys
import time

import pytest
import torch

import kernellab as kl
from kernellab.checking.examiner import Examiner
from kernellab.checking.search import find
from kernellab.declaration.case import Case
from kernellab.declaration.targets import Target, load
from kernellab.reproduction.script import script
from kernellab.running.parent.failed_trials import KEPT, Failures
from kernellab.trials.small_cases import largest
from kernellab.trials.trial import Trial
from support.klab import HERE, OPFILES


@pytest.fixture(autouse=True)
def _one_thread():
    """Small trials by the hundred: two threads on two busy cores would wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CPU = torch.device("cpu")
FILE = OPFILES / "searched.py"


@pytest.fixture(scope="module")
def blend():
    return load(Target("searched", file=str(FILE)))["blend"]


def search(op, name, seconds=60.0):
    """Ends with what it finds; `seconds` are for who finds nothing."""

    def examine(trial):
        return Examiner(op, seed=0, device=CPU).examine(op[name], trial)

    return find(op, examine, seconds=seconds, seed=0, device="cpu")


def run_alone(text, tmp_path):
    """A script in a Python that knows of no kernellab."""
    (tmp_path / "alone.py").write_text(text)
    hidden = (
        "import sys; sys.modules['kernellab'] = None; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", hidden, str(tmp_path / "alone.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


# Finding -----------------------------------------------------------------------------------------------


def test_a_mistake_is_found_shrunk_and_reproduced_alone(blend, tmp_path):
    found = search(blend, "blocks")
    trial = found.trial
    assert trial is not None
    assert (trial.kind, trial.case.N, trial.case.mode, trial.case.dtype) == ("search", 65, "subtract", "float32")
    assert (trial.of, trial.call, dict(trial.values), list(trial.layouts)) == ("forward", "plainly", {}, ["y"])
    assert largest(blend, trial.case) <= 2 * 65
    made = script(blend, blend["blocks"], trial, found.observed, seed=0, interpreted=False)
    assert "kernellab" not in made.text
    assert len(made.lines) <= 12
    assert all(len(line) <= 120 for line in made.lines)
    done = run_alone(made.text, tmp_path)
    assert float(re.search(r"worst difference: (\S+)", done.stdout)[1]) > 1e-3, done.stderr


def test_the_same_seed_draws_the_same(blend):
    def drawn(seed):
        keys = []

        def examine(trial):
            keys.append(trial.key)
            if len(keys) == 20:
                raise ConnectionError("enough")
            return {"status": "ok", "reason": None}

        with pytest.raises(ConnectionError):
            find(blend, examine, seconds=60.0, seed=seed, device="cpu")
        return keys

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.clocked
def test_nothing_is_found_where_nothing_is_wrong_and_time_is_kept_to(blend):
    began = time.monotonic()
    found = search(blend, "honest", seconds=1.5)
    assert time.monotonic() - began < 2
    assert found.trial is None
    assert found.drawn > 20


@pytest.mark.clocked
def test_what_is_drawn_is_defined_and_small_enough():
    @kl.op(
        args=dict(
            q=kl.tensor("H S"), k=kl.tensor("G S"), bias=kl.optional(kl.tensor("S")), at=kl.index("H", below="S")
        ),
        dims=dict(G="H"),
        where=lambda c: c.H % c.G == 0 and c.S > 0,
    )
    def mixed(q, k, bias, at):
        return q + k.repeat_interleave(q.shape[0] // k.shape[0], 0) + (0 if bias is None else bias) + at[:, None]

    mixed.impl("same")(mixed.reference)
    trials = []

    def examine(trial):
        trials.append(trial)
        return {"status": "ok", "reason": None}

    find(mixed, examine, seconds=1.0, seed=0, device="cpu", most=500)
    assert all(t.case.H % t.case.G == 0 and t.case.S > 0 and largest(mixed, t.case) <= 500 for t in trials)
    assert {t.case.bias for t in trials} == {True, False}
    assert {t.case.G == t.case.H for t in trials} == {True, False}
    assert not any("bias" in t.layouts for t in trials if not t.case.bias)
    assert len({t.draw for t in trials}) > 3, "values vary too"


@pytest.mark.clocked
@pytest.mark.parametrize(("values", "fails"), [("all", True), ("its own", False)])
def test_a_little_above_the_limit_counts_when_other_values_fail_too(blend, values, fails):
    drawn = set()

    def examine(trial):
        plain = dataclasses.replace(trial, draw=0).key
        wrong = values == "all" or plain not in drawn
        drawn.add(plain)
        return {"status": "wrong", "reason": "values", "excess": 1.5} if wrong else {"status": "ok", "reason": None}

    assert (find(blend, examine, seconds=0.5, seed=0, device="cpu").trial is not None) is fails


def test_an_op_defined_nowhere_ends_with_its_time():
    @kl.op(where=lambda case: False)
    def nowhere(x):
        return x

    found = find(nowhere, lambda trial: None, seconds=0.5, seed=0, device="cpu")
    assert (found.drawn, found.trial) == (0, None)


def test_what_goes_wrong_while_examining_is_passed_on(blend):
    def examine(trial):
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError):
        find(blend, examine, seconds=2.0, seed=0, device="cpu")


# Scripts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exhibit", "trial", "shown"),
    [
        ("falsy_zero", {"options": {"scale": 0.0}}, r"worst difference: [0-9.]+"),
        ("nothing_to_do_returns_input", {"options": {"factor": 1.0}}, r"in the memory of x: True"),
        ("float32_comes_out", {"dtype": "bfloat16"}, r"(?s)got .* torch.float32 .*should be .* torch.bfloat16"),
        ("workspace_never_zeroed", {}, r"worst difference: inf"),
        ("one_buffer_for_all", {"call": "twice"}, r"the first result is as it was: False"),
        ("other_result_in_training", {"of": "backward", "options": {"shift": 1.0}}, r"worst difference: 1\.0"),
    ],
)
def test_scripts_show_what_is_wrong(exhibit, trial, shown, capsys):
    (op,) = load(Target(exhibit, file=str(HERE / "museum" / f"{exhibit}.py"))).values()
    way = next(impl for name, impl in op.impls.items() if name.endswith("wrong"))
    options = {name: values[0] for name, values in op.all_options().items()}
    sizes = {dim: (3,) if dim == "..." else 40 for dim in op.dims}
    sizes = sizes if len(sizes) > 1 else {"...": (3, 40)}
    case = Case(sizes, trial.get("dtype", "float32"), {**options, **trial.get("options", {})})
    one = Trial("search", case, of=trial.get("of", "forward"), call=trial.get("call", "plainly"))
    observed = Examiner(op, seed=0, device=CPU).examine(way, one)
    assert observed["status"] == "wrong"
    try:
        exec(compile(script(op, way, one, observed, seed=0, interpreted=False).text, "script", "exec"), {})
    finally:
        torch.use_deterministic_algorithms(False)
    assert re.search(shown, capsys.readouterr().out)


def test_gradients_and_errors_have_scripts_too(blend, tmp_path, capsys):
    case = Case({"...": (3,), "N": 5}, "float32", {"mode": "add"})
    trial = Trial("search", case, layouts={"x": "every second element"}, of="backward", upstream="expanded")
    fine = {"status": "wrong", "reason": "values: of another way"}
    exec(compile(script(blend, blend["honest"], trial, fine, seed=0, interpreted=False).text, "script", "exec"), {})
    result, *gradients = capsys.readouterr().out.splitlines()
    assert float(result.removeprefix("worst difference: ")) < 1e-6
    assert gradients == ["worst difference: 0.0"] * 2
    (tmp_path / "raises.py").write_text(
        "import kernellab as kl\nfrom nearby import limit\n\n@kl.op\ndef f(x):\n    return x + 0\n\n"
        "def cost(x):\n    return kl.Cost()\n\nf.impl('mine')(lambda x: x + 1 / (x.numel() - limit))\n"
    )
    (tmp_path / "nearby.py").write_text("limit = 4\n")
    op = load(Target("raises", file=str(tmp_path / "raises.py")))["f"]
    one = Trial("search", Case({"...": (4,)}, "float32"))
    observed = Examiner(op, seed=0, device=CPU).examine(op["mine"], one)
    done = run_alone(script(op, op["mine"], one, observed, seed=0, interpreted=False).text, tmp_path)
    assert "ZeroDivisionError" in done.stderr


def test_a_shipped_op_is_loaded_with_kernellab_and_that_is_said():
    op = kl.ops.softmax
    trial = Trial("search", Case({"...": (3,), "N": 5}, "float32"))
    text = script(op, op["torch"], trial, {"status": "wrong", "reason": "values:"}, seed=0, interpreted=False).text
    assert "# kernellab is needed: softmax is one of its own ops" in text
    names = {}
    exec(compile(text, "script", "exec"), names)
    assert names["off"].max() < 1e-6


# The store ---------------------------------------------------------------------------------------------


def test_stored_trials_come_back_as_they_were_and_not_for_another_op(blend):
    case = Case({"...": (2,), "N": 65}, "float32", {"mode": "subtract"})
    trial = Trial("search", case, layouts={"y": "transposed"}, of="backward", upstream="zero")
    assert Trial.from_json(trial.to_json(), blend) == trial
    assert Trial.from_json(trial.to_json(), kl.ops.gelu) is None
    changed = {**trial.to_json(), "case": {**case.to_json(), "options": {"mode": "divide"}}}
    assert Trial.from_json(changed, blend) is None


def test_the_store_keeps_a_few_and_forgets_what_passes(tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELLAB_CACHE", str(tmp_path))

    def tried(n, kind, status):
        trial = Trial(kind, Case({"N": n}, "float32")).to_json()
        return {"trial": {**trial, "label": str(n)}, "status": status}

    store = Failures("op", "file.py")
    store.learn("way", [tried(n, f"kind {n}", "wrong") for n in range(KEPT + 5)])
    assert len(store.of("way")) == KEPT
    store.learn("way", [tried(99, "search", "crashed"), tried(0, "stored", "ok")])
    sizes = [one["case"]["dims"]["N"] for one in store.of("way")]
    assert sizes[0] == 99
    assert 0 not in sizes
    assert Failures("op", "other.py").of("way") == []
    assert store.fitting("way", device="cuda", dtypes=[]) == []
    assert {one["kind"] for one in store.fitting("way", device="cpu", dtypes=["float32"])} == {"stored"}


# All together ------------------------------------------------------------------------------------------


@pytest.mark.clocked
def test_klab_searches_stores_and_tries_first_what_failed(klab, tmp_path):
    op = tmp_path / "searched.py"
    op.write_text(FILE.read_text())
    cache = {"KERNELLAB_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    ran = klab("check", op, "--impl", "honest,blocks,crashes", "--quick", "--budget", "7", "--out", "first", **cache)
    assert ran.code == 1
    assert re.search(r"honest  \d+ drawn by search in \d\.\d s, none failed", ran.out)
    assert re.search(r"blocks  wrong: search: .*65 · float32 · mode=subtract · y ", ran.out)
    assert re.search(r"crashes  crashed: search: .*segmentation fault", ran.out)
    assert "reproduce-blend-blocks.py" in ran.out
    done = run_alone((tmp_path / "first/artifacts/reproduce-blend-blocks.py").read_text(), tmp_path)
    assert "worst difference: " in done.stdout
    assert not (tmp_path / ".hypothesis").exists()

    op.write_text(FILE.read_text().replace("n > BLOCK and n % 2", "n < 0"))
    again = klab("check", op, "--impl", "blocks,crashes", "--quick", "--json", "--out", "second", **cache)
    kinds = {name: [t for t in again.record["trials"] if t["impl"] == name] for name in ("blocks", "crashes")}
    assert (kinds["blocks"][0]["trial"]["kind"], kinds["blocks"][0]["status"]) == ("stored", "ok")
    assert [(t["trial"]["kind"], t["status"]) for t in kinds["crashes"]] == [("stored", "crashed")]
    (mended,) = (one["mended"] for one in again.record["batteries"] if one["impl"] == "blocks")
    assert len(mended) == 1
    kept = [file.name for file in (tmp_path / "cache" / "failures").iterdir()]
    assert [name.rsplit("-", 1)[0] for name in kept] == ["blend-crashes"]


def test_a_budget_needs_a_battery(klab):
    ran = klab("check", "square", "--declared", "--budget", "3")
    assert ran.code == 2
    assert "--budget searches beyond the battery" in ran.err
