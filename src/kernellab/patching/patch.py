"""`kernellab.patch(model)`: what is replaced, what is not and why, and the way back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import FunctionType

from torch import nn

from kernellab import nn as kernellab_nn
from kernellab.patching import calls
from kernellab.patching.classes import derive, is_derived
from kernellab.patching.recognition import NotRecognized, Recognized, recognize

# Modules of torch.nn, and their namesakes of kernellab.nn.
_NAMESAKES: dict[type, type] = {
    getattr(nn, name): getattr(kernellab_nn, name)
    for name in ("GELU", "SiLU", "Softmax", "LogSoftmax", "LayerNorm", "RMSNorm", "CrossEntropyLoss")
}


@dataclass(frozen=True)
class Entry:
    """A module that was looked at: `by` says what serves it now, or `reason` why it was left as it was."""

    path: str
    module: str
    by: str = ""
    reason: str = ""


@dataclass
class Patch:
    """What `patch` did to a model."""

    replaced: list[Entry] = field(default_factory=list)
    left: list[Entry] = field(default_factory=list)
    dry_run: bool = False
    _ways_back: list[Callable[[], None]] = field(default_factory=list, repr=False)

    def undo(self) -> None:
        """Make the model what it was."""
        while self._ways_back:
            self._ways_back.pop()()

    def __str__(self) -> str:
        verb = "would be replaced" if self.dry_run else "replaced"
        lines = [f"{len(self.replaced)} modules {verb}, {len(self.left)} left as they are"]
        lines += [f"  {e.path or '(the model)'}: {e.module} by {e.by}" for e in self.replaced]
        lines += [f"  {e.path or '(the model)'}: {e.module} left: {e.reason}" for e in self.left]
        return "\n".join(lines)


def patch(model: nn.Module, *, dry_run: bool = False) -> Patch:
    """Let kernels serve in a model, in place, where they compute the same; see docs/models.md.

    >>> done = patch(model)                              # doctest: +SKIP
    >>> print(done)                                      # doctest: +SKIP
    >>> done.undo()                                      # doctest: +SKIP
    """
    done = Patch(dry_run=dry_run)
    for path, module in model.named_modules():
        _patch_class(done, path, module)
        _patch_loss_function(done, path, module)
    return done


def _patch_class(done: Patch, path: str, module: nn.Module) -> None:
    original, name = type(module), type(module).__name__
    if "forward" in vars(module):
        done.left.append(
            Entry(path, name, reason="its forward is an attribute of the module: something replaced it before")
        )
        return
    if original in _NAMESAKES:
        _set_class(done, module, _NAMESAKES[original])
        done.replaced.append(Entry(path, name, f"kernellab.nn.{_NAMESAKES[original].__name__}"))
        return
    if original.__module__.partition(".")[0] in ("torch", "kernellab") or is_derived(original):
        return
    recognized = recognize(module)
    if isinstance(recognized, Recognized):
        _set_class(done, module, derive(original, recognized.maker))
        done.replaced.append(Entry(path, name, recognized.function))
        return
    _, names = calls.redirect(original.forward)
    if names:
        _set_class(done, module, derive(original, calls.Redirected()))
        done.replaced.append(Entry(path, name, f"{', '.join(sorted(names))} in its forward"))
    elif isinstance(recognized, NotRecognized):
        done.left.append(Entry(path, name, reason=recognized.reason))


def _set_class(done: Patch, module: nn.Module, replacement: type) -> None:
    if not done.dry_run:
        original = type(module)
        module.__class__ = replacement
        done._ways_back.append(lambda: setattr(module, "__class__", original))


def _patch_loss_function(done: Patch, path: str, module: nn.Module) -> None:
    """The loss of a model of transformers, which is a function beside the model."""
    if not calls.uses(type(module).forward, "loss_function"):
        return
    function = getattr(module, "loss_function", None)
    if not isinstance(function, FunctionType) or "_loss_function" in vars(module):
        return
    redirected = calls.RedirectedFunction(function)
    if redirected.names:
        if not done.dry_run:
            vars(module)["_loss_function"] = redirected
            done._ways_back.append(lambda: vars(module).pop("_loss_function"))
        names = ", ".join(sorted(redirected.names))
        done.replaced.append(Entry(path, type(module).__name__, f"{names} in its loss_function"))
