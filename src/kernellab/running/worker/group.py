"""One op at one case: checks its implementations and times those that are right."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from time import monotonic
from types import ModuleType

import torch

from kernellab.accuracy.oracle import Oracle, compute
from kernellab.accuracy.outputs import Outputs
from kernellab.accuracy.prepared_trial import CannotCheck, PeerDied, PreparedTrial, TrialPreparer
from kernellab.accuracy.spot_check import ResultForm, SpotCheck
from kernellab.accuracy.vault import Vault
from kernellab.activity.autotuning import record_choices
from kernellab.activity.compilation import CompilationLog
from kernellab.activity.documents import TunedJson
from kernellab.checking.compiled_impls import reset_compiled
from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.outcome import CaseOutcome
from kernellab.declaration import inputs as make_inputs
from kernellab.declaration.cost import CostFailed, cost_of_pass
from kernellab.declaration.documents import CostJson
from kernellab.declaration.passes import pass_of
from kernellab.machine.gpu_state import gpu_is_dead
from kernellab.machine.telemetry import Telemetry
from kernellab.record.result_events import CostCounted, ImplBuilt, ImplChecked, TimeSpent
from kernellab.record.schema import BuiltJson
from kernellab.record.statuses import RIGHT
from kernellab.running.protocol.commands import SeriesRequest
from kernellab.running.protocol.events import CulpritNamed, SeriesBegun
from kernellab.running.worker.channel import GpuContextLost
from kernellab.running.worker.guards.global_state import guard_global_state
from kernellab.running.worker.guards.result_judge import ResultJudge
from kernellab.running.worker.guards.result_shapes import shapes_depend_on_values
from kernellab.running.worker.series import SeriesRunner
from kernellab.running.worker.task import Task
from kernellab.timing.input_sets import InputSets
from kernellab.trials.trial import Trial

# High enough for a check of every option value; an implementation that recompiles in every call still exceeds it.
RECOMPILE_LIMIT = 64
_SECOND_CONTENT_SEED = 1_000_003  # added to the seed for the second content of the inputs


class GroupRunner:
    """Checks and times one op at one case, and sends what it observes."""

    def __init__(
        self,
        task: Task,
        interpreted: bool,
        distrusted: frozenset[str],
        telemetry: Telemetry,
        max_elements: int | None = None,
    ) -> None:
        """`distrusted`: implementations that have killed a process and are not used as the peer.

        `max_elements`: a case with larger inputs is checked on a stand-in. None where the case is timed.
        """
        self.task, self.telemetry, self._max_elements = task, telemetry, max_elements
        self.channel, self.op, self.case, self.device = task.channel, task.op, task.case, task.device
        self.interpreted, self._distrusted = interpreted, distrusted
        telemetry.sample(force=True)
        self._checkers: dict[str, CaseChecker] = {}
        self._log = CompilationLog.installed()
        self._began = monotonic()
        self._spent_s: dict[str, float] = {}
        self._errors: dict[str, dict[str, float]] = {}  # by pass and implementation
        reset_compiled(task.op)

    def close(self) -> None:
        """Send how the time was spent, and free the memory before the next case."""
        self.channel.send(TimeSpent(seconds={**self._spent_s, "all": monotonic() - self._began}))
        self._checkers.clear()
        gc.collect()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    # Checking ------------------------------------------------------------------------------------------

    def check(self, names: list[str], pass_name: str) -> set[str]:
        """Check a pass of each implementation and send the outcomes; the names of those that are right."""
        right = set()
        for name in names:
            outcome = self._check_impl(name, pass_name)
            dead = outcome.status not in (*RIGHT, "skipped") and gpu_is_dead(self.device)
            if dead:
                outcome = replace(outcome, status="crashed", reason=f"GPU fault: {outcome.reason}")
            self.channel.send(ImplChecked(impl=name, check=outcome.to_json(), pass_name=pass_name))
            if dead:
                raise GpuContextLost
            if outcome.status in RIGHT:
                right.add(name)
                errors = outcome.to_json().get("errors")
                if errors and errors["max"] is not None:
                    self._errors.setdefault(pass_name, {})[name] = errors["max"]
        return right

    def remember_errors(self, errors: Mapping[str, Mapping[str, float]]) -> None:
        """Errors that an earlier worker found in implementations, by pass. While timing, an implementation may be off
        by as much as when it was checked."""
        for pass_name, found in errors.items():
            self._errors.setdefault(pass_name, {}).update(found)

    def _check_impl(self, name: str, pass_name: str) -> CaseOutcome:
        problem = self.task.integrity.load_problem
        if problem is not None:
            return CaseOutcome("wrong", problem, self.case, self.interpreted)
        for function in self.task.integrity.restored_at_load:
            self.task.noter(name)(f"its file replaced {function} while it was loaded: torch's own was put back")
        mark = self._log.mark()
        try:
            self.telemetry.sample()
            phase = "check" if pass_name == "forward" else "gradients"
            with (
                self.channel.running(name, phase),
                guard_global_state(self.task.noter(name), may_draw=self.op[name].random),
                record_choices() as choices,
            ):
                outcome = self._checker(pass_name).check(self.op[name])
                gc.collect(1)  # run its finalisers now: if a __del__ hangs, the right implementation is blamed
        except PeerDied as died:
            self.channel.send(CulpritNamed(impl="torch", reason=f"GPU fault: {died}"))
            raise GpuContextLost from None
        replaced = self.task.integrity.restore(self.channel)
        if replaced and outcome.status in RIGHT:
            outcome = replace(outcome, status="wrong", reason=f"replaced {replaced[0]}")
        self._report_build(name, mark, choices)
        return outcome

    def _checker(self, pass_name: str) -> CaseChecker:
        if pass_name not in self._checkers:
            self._checkers[pass_name] = CaseChecker(
                self.op,
                self.case,
                seed=self.task.seed,
                device=self.device,
                interpreted=self.interpreted,
                max_elements=self._max_elements,
                running=self._running,
                distrusted=self._distrusted,
                pass_=pass_of(pass_name),
                vault=Vault(self.channel.keeper),
            )
        return self._checkers[pass_name]

    @contextlib.contextmanager
    def _running(self, impl: str | None, phase: str) -> Iterator[None]:
        """Around the peer in the middle of another implementation's check.

        Global state that the peer changes is restored, and not blamed on that implementation.
        """
        guard = contextlib.nullcontext() if impl is None else guard_global_state(_ignore)
        with self.channel.running(impl, phase), guard:
            yield

    def _report_build(self, name: str, mark: int, choices: list[TunedJson]) -> None:
        """Send what torch.compile and the autotuners did for an implementation since `mark`."""
        events = [event for event in self._log.since(mark) if not event.nested]
        if events or choices:
            built: BuiltJson = {
                "seconds": sum(event.seconds for event in events),
                "tuned": choices,
            }
            if any(event.kind == "compile" for event in events):
                built["compile"] = self._log.compile_summary(mark)
            self.channel.send(ImplBuilt(impl=name, built=built))

    # Timing --------------------------------------------------------------------------------------------

    def time(self, requests: list[SeriesRequest], is_right: Callable[[str, str], bool]) -> None:
        """Time each series with the implementations for which `is_right(name, pass_name)`.

        One that fails in a series is left out of the later ones.
        """
        failed: set[str] = set()
        prepared: dict[str, tuple[InputSets, ResultForm | None]] = {}
        for request in requests:
            series, pass_name = request["series"], request["series"]["pass"]
            names = [name for name in request["impls"] if is_right(name, pass_name) and name not in failed]
            if not names:
                continue
            self.channel.send(SeriesBegun(pass_name=pass_name, timer=series["timer"], cache=series["cache"]))
            for name in names:
                if pass_name != "forward" and self.op[name].grad_in_forward:
                    note = "computes its gradients in the forward pass: compare the times of both passes together"
                    self.task.noter(name, "pass")(note)
            if pass_name not in prepared:
                prepared.clear()  # frees the inputs of the pass before
                prepared[pass_name] = self._input_sets(pass_name, names)
                cost = self._cost(pass_name, prepared[pass_name][0].contents[0], names)
                self.channel.send(CostCounted(cost=cost, pass_name=pass_name))
            judge = ResultJudge(
                partial(self._spot_check, pass_name),
                partial(self._new_spot_check, pass_name, prepared[pass_name][1]),
                self._errors.get(_compared_pass(pass_name), {}),
            )
            runner = SeriesRunner(self.task, series, self.telemetry, judge)
            failed |= runner.run(names, *prepared[pass_name], request["timing"], energy_blocks=request["energy_blocks"])
            for phase, seconds in runner.spent.items():
                self._spent_s[phase] = self._spent_s.get(phase, 0.0) + seconds

    def _input_sets(self, pass_name: str, names: list[str]) -> tuple[InputSets, ResultForm | None]:
        """The inputs with two contents, and the form of the results. One content where there is no memory for two.

        Without an oracle there is one content and no form; where the shapes of the results depend on the values of
        the inputs there is no form either. The oracle itself is not kept.
        """
        contents = [self._make_content(pass_name, 0)]
        form, problem = None, None
        try:
            with self.channel.running(None, "oracle"):
                form = ResultForm.of(self._prepare(pass_name, self.task.seed))
        except (CannotCheck, torch.OutOfMemoryError) as error:
            problem = f"timed without comparing its results, and without swapping the contents of its inputs: {error}"
        self._checkers.clear()  # timing needs the memory
        if form is not None and not InputSets(contents).fits(self.device, copies=4):
            problem = "timed with one content of its inputs: there is no memory for a second"
        if problem is None:
            contents.append(self._make_content(pass_name, 1))
            if self._shapes_vary(pass_name):
                form = None
                problem = "timed without comparing its results: their shapes depend on the values of the inputs"
        for name in names if problem else ():
            self.task.noter(name, "inputs")(str(problem))
        remake = partial(self._make_content, pass_name)
        return InputSets(contents, remake), form

    def _shapes_vary(self, pass_name: str) -> bool:
        trial = Trial("declared", self.case, pass_name=_compared_pass(pass_name))

        def evaluate(content: int) -> Outputs:
            return compute(self.op, self.op.reference, self._make_content(pass_name, content), trial)

        try:
            with self.channel.running(None, "oracle"):
                return shapes_depend_on_values(evaluate)
        except Exception:  # the check has evaluated the reference; what fails here is not an implementation's fault
            return False

    def _make_content(self, pass_name: str, content: int) -> make_inputs.Inputs:
        return pass_of(pass_name).inputs(self.op, self.case, self._content_seed(content), self.device)

    def _content_seed(self, content: int) -> int:
        return self.task.seed + content * _SECOND_CONTENT_SEED

    def _spot_check(self, pass_name: str, content: int) -> SpotCheck:
        """What the results for one content must be, computed anew: nothing of it exists while implementations run."""
        with self.channel.running(None, "oracle"):
            prepared = self._prepare(pass_name, self._content_seed(content))
            return SpotCheck.of(prepared, rowwise=bool(self.op.reduces))

    def _new_spot_check(self, pass_name: str, form: ResultForm | None, seed: int) -> SpotCheck:
        """The same for inputs that are used once, at less expense: the errors that pass are known already."""
        assert form is not None, "without an oracle nothing is compared"
        with self.channel.running(None, "oracle"):
            inputs = pass_of(pass_name).inputs(self.op, self.case, seed, self.device)
            trial = Trial("declared", self.case, pass_name=_compared_pass(pass_name))
            count = len(form.tensors)
            oracle = Oracle(self.op, seed=seed, device=self.device).compute(trial, inputs)[-count:]
            peer = compute(self.op, self.op.reference, inputs, trial)[-count:]
            return SpotCheck(oracle, peer, form.max_errors, rowwise=bool(self.op.reduces))

    def _prepare(self, pass_name: str, seed: int) -> PreparedTrial:
        preparer = TrialPreparer(
            self.op,
            seed=seed,
            device=self.device,
            running=self._running,
            distrusted=self._distrusted,
        )
        return preparer.prepare(Trial("declared", self.case, pass_name=_compared_pass(pass_name)))

    def _cost(self, pass_name: str, inputs: make_inputs.Inputs, names: list[str]) -> CostJson | None:
        """The cost of a pass; None, with a note, where the op's cost= fails."""
        try:
            with self.channel.running(None, "cost"):
                return cost_of_pass(self.op, pass_name, inputs, self.case)
        except CostFailed as failure:
            for name in names:
                self.task.noter(name, "cost")(f"its limit is not known: {failure}")
            return None


def limit_recompilation(config: ModuleType) -> None:
    """Make exceeding the limit an error, in `torch._dynamo.config`.

    By default torch falls back to eager code after 8 recompilations, which would then be timed as compiled code.
    """
    settings = {"recompile_limit": RECOMPILE_LIMIT, "fail_on_recompile_limit_hit": True}
    for name, value in settings.items():
        setattr(config, name, value)


def _compared_pass(pass_name: str) -> str:
    """The pass whose results a timed call returns: a call of both returns gradients."""
    return "backward" if pass_name == "both" else pass_name


def _ignore(change: str) -> None:
    """The peer's changes are reported by its own check."""
