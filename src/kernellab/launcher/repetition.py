"""Connects the functions of kernellab.functional with the extension: when it is started, and what it calls back."""

from __future__ import annotations

import inspect
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Generic, Protocol, TypeVar

import torch

from kernellab.base.functions import AnyFunction
from kernellab.base.operator_mode import AnyOverload
from kernellab.build import cuda
from kernellab.launcher import build, recording
from kernellab.ops.gradients import Contract, Given

Result = TypeVar("Result")
F = TypeVar("F", bound=AnyFunction)
_NAMESPACE = "kernellab"


class Repeatable(Generic[Result]):
    """A function whose calls can be repeated. `repeat`, called with its arguments, returns its result, or None if the
    call has to go its ordinary way."""

    repeat: Callable[..., Result | None]  # type: ignore[explicit-any]

    def __init__(self, name: str, contract: Contract, backward: AnyOverload) -> None:
        """`backward`: the operator of the backward pass of the op."""
        self._name, self._contract, self._backward = name, contract, backward
        self._function: AnyFunction | None = None
        self.repeat = LAUNCHER.wait

    def serves(self, function: F) -> F:
        """A decorator: the function is what calls are recorded from. Its first tensors are the inputs of the op, in
        their order. Parameters with a leading underscore are not passed to `repeat`."""
        self._function = function
        self._parameters = [p for p in inspect.signature(function).parameters.values() if not p.name.startswith("_")]
        self._places = [i for i, p in enumerate(self._parameters) if str(p.annotation).startswith("Tensor")]
        self._places = self._places[: len(self._contract.inputs)]
        LAUNCHER.add(self)
        return function

    def connect(self, extension: ModuleType) -> None:
        """Repeat calls from now on."""
        contract = self._contract
        names = (*contract.inputs, *contract.outputs)
        self.repeat = extension.make_function(
            self._name,
            [i in self._places for i in range(len(self._parameters))],
            self._places,
            contract.results,
            [names.index(name) for name in contract.saved],
            [[contract.inputs.index(name) for name in group] for group in contract.differentiated],
            contract.takes_missing_gradients,
            self._record,
            self._run_backward,
        )

    def disconnect(self) -> None:
        self.repeat = _nothing

    def _record(self, *args: object) -> tuple[object, recording.Description | None, bool]:
        """The result of a call that goes its ordinary way, and what was recorded."""
        assert self._function is not None
        inputs: Given = [args[place] for place in self._places]  # type: ignore[misc]
        made = recording.Recording(self._name, inputs)
        with made.active():
            result = self._function(**{p.name: value for p, value in zip(self._parameters, args, strict=True)})
        return result, made.description, made.is_final

    def _run_backward(
        self, taken: Sequence[torch.Tensor | None], options: Sequence[object], wanted: Sequence[bool], record: bool
    ) -> tuple[list[torch.Tensor], recording.Description | None, bool]:
        """The wanted gradients by the operator of the backward pass, and what was recorded."""
        made = recording.Recording(f"{self._name}_backward", taken)
        if not record:
            return list(self._backward(*taken, *options, wanted)), None, True  # type: ignore[call-overload]
        with made.active():
            gradients = list(self._backward(*taken, *options, wanted))  # type: ignore[call-overload]
        return gradients, made.description, made.is_final


def _nothing(*args: object) -> None:
    """No call can be repeated."""


class Connectable(Protocol):
    def connect(self, extension: ModuleType) -> None: ...

    def disconnect(self) -> None: ...


class Launcher:
    """The extension of this process: nothing is built or loaded before the first call on a GPU."""

    def __init__(self) -> None:
        self._functions: list[Connectable] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self.extension: ModuleType | None = None
        self.is_started = False

    def add(self, function: Connectable) -> None:
        self._functions.append(function)

    def wait(self, *args: object) -> None:
        """What functions call until the extension is loaded: no call can be repeated."""
        if isinstance(args[0], torch.Tensor) and args[0].is_cuda:
            self.start()

    def start(self) -> None:
        """Load the extension, or build it in the background and load it then."""
        with self._lock:
            if self.is_started:
                return
            self.is_started = True
        if build.is_switched_off() or torch.version.hip is not None:
            return
        goal = build.target()
        if goal.library.exists():
            self._load(goal)
        elif not (goal.failed.exists() or build.why_not_possible()):
            self._thread = threading.Thread(target=self._build, args=(goal,), name="kernellab launcher", daemon=True)
            self._thread.start()

    def wait_until_built(self, timeout_s: float | None = None) -> bool:
        """Start, and wait for the build. Whether calls are repeated."""
        self.start()
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self.extension is not None

    def _build(self, goal: build.Target) -> None:
        try:
            build.build(goal)
        except Exception as error:  # a full disk, for example: nobody waits for this thread
            _warn(f"cannot be built: {error}")
            return
        if goal.library.exists():
            self._load(goal)

    def _load(self, goal: build.Target) -> None:
        try:
            self.connect(build.load(goal), {})
        except Exception as error:
            _warn(f"cannot be loaded: {error}. It is {goal.library}")

    def connect(self, extension: ModuleType, driver_functions: Mapping[str, int]) -> None:
        """Repeat calls by an extension. `driver_functions`: the addresses of functions in the place of the driver's."""
        launching, registered = vars(cuda), torch.library._impls
        extension.enable(dict(driver_functions), torch.nn.Parameter, launching, registered, _Registrations().are_ours)
        self.extension, self.is_started = extension, True
        for function in self._functions:
            function.connect(extension)

    def disconnect(self) -> None:
        """Repeat no calls any more."""
        for function in self._functions:
            function.disconnect()
        if self.extension is not None:
            self.extension.disable()
            self.extension.forget()

    def forget(self) -> None:
        """Forget all recorded calls, because the implementations that serve may have changed."""
        if self.extension is not None:
            self.extension.forget()


def _warn(problem: str) -> None:
    warnings.warn(
        f"kernellab: the launcher {problem}. Calls take more host time. {build.SWITCH}=0 switches it off", stacklevel=2
    )


class _Registrations:
    """Whether our operators have no other kernels than when this was made: a repetition bypasses the dispatcher."""

    def __init__(self) -> None:
        self._ours = self._find()

    def are_ours(self) -> bool:
        return self._find() == self._ours

    def _find(self) -> set[str]:
        return {key for key in torch.library._impls if key.startswith(f"{_NAMESPACE}/")}


LAUNCHER = Launcher()
forget = LAUNCHER.forget
