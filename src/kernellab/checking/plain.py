"""A trial in plain torch: the lines that make its inputs, call `way` and `reference`, and print what differs."""

from __future__ import annotations

import math
from typing import Any

import torch

from kernellab.checking import material
from kernellab.checking.trial import Trial
from kernellab.declare import Op
from kernellab.inputs import generator_for
from kernellab.passes import is_upstream

_LAY = (
    "def lay(x, strides, offset=0):  # in the midst of {nothing}",
    "    reach = offset + 8193 + sum((n - 1) * s for n, s in zip(x.shape, strides))",
    "    room = torch.full((reach,), {fill}, dtype=x.dtype, device=x.device)",
    "    return room.as_strided(x.shape, strides, offset + 4096).copy_(x)",
)
_COMPARED = (
    "same = (got == want.to(got.dtype)) | (got.isnan() & want.isnan())",
    "off = (got.double() - want).abs().masked_fill(same, 0).nan_to_num(torch.inf)",
    'print("worst difference:", off.max().item())',
)
_FORM = 'print("got", tuple(got.shape), got.dtype, got.stride(), "should be", tuple(want.shape), {dtype})'
_FORMS = ("shape", "dtype", "device", "strides")


def lines(op: Op, trial: Trial, observed: dict[str, Any], seed: int) -> list[str]:
    """About ten. `way` and `reference` are there already."""
    return _Lines(op, trial, observed, seed).write()


class _Lines:
    def __init__(self, op: Op, trial: Trial, observed: dict[str, Any], seed: int) -> None:
        self.op, self.trial, self.seed = op, trial, material.drawn_from(seed, trial)
        self.status, self.reason = observed["status"], str(observed["reason"])
        self.device = torch.device(trial.case.device)
        self._where = "" if self.device.type == "cpu" else f', device="{self.device.type}"'
        self._made = material.make(op, trial, seed, self.device, bands=False).inputs
        self._poisoned = "NaN" in self.reason or "outside" in self.reason
        self._laid = False

    def write(self) -> list[str]:
        made = [line for name in self._made for line in self._input(name)]
        called = self._backward() if self.trial.of == "backward" else self._forward()
        head = self._helper() if self._laid else []
        if self._poisoned:
            head.append("torch.use_deterministic_algorithms(True, warn_only=True)  # torch.empty is filled with NaN")
        return [*head, *made, *called]

    # Inputs --------------------------------------------------------------------------------------------

    def _helper(self) -> list[str]:
        floats = all(t is None or t.is_floating_point() for t in self._made.values())
        nothing = "NaN" if floats else "NaN, or of integers that are no index"
        fill = "torch.nan" if floats else "torch.nan if x.is_floating_point() else 1 << 40"
        return [line.format(nothing=nothing, fill=fill) for line in _LAY]

    def _generator(self, *words: str) -> str:
        seed = generator_for(self.device, self.seed, *words).initial_seed()
        device = "" if self.device.type == "cpu" else f'"{self.device.type}"'
        return f"torch.Generator({device}).manual_seed({seed})"

    def _input(self, name: str) -> list[str]:
        x = self._made[name]
        called = _variable(name)
        if x is None:
            return [f"{called} = None"]
        shape, arg = tuple(x.shape), self.op.args.get(name)
        upstream = is_upstream(name)
        if upstream and self.trial.upstream in ("expanded", "zero"):
            kind = f"dtype={x.dtype}{self._where}"
            ones, zeros = f"torch.ones((), {kind}).expand({shape})", f"torch.zeros({shape}, {kind})"
            return [f"{called} = {ones if self.trial.upstream == 'expanded' else zeros}"]
        if arg is not None and arg.is_index:
            found = self._index(called, name, shape)
        else:
            drawn = f"{shape}, generator={self._generator(self.op.name, name)}, dtype={x.dtype}{self._where}"
            found = [f"{called} = torch.randn({drawn})"]
            if name in self.trial.values:
                found += self._filled(called, name, x)
        return [*found, *self._lay(called, name, x)]

    def _index(self, called: str, name: str, shape: tuple[int, ...]) -> list[str]:
        arg, case = self.op.args[name], self.trial.case
        below = case.dims[arg.below] if isinstance(arg.below, str) else arg.below
        sentinel = case.options.get(arg.sentinel) if isinstance(arg.sentinel, str) else arg.sentinel
        assert isinstance(below, int)
        last = max(0, below - 1)
        values = self.trial.values.get(name)
        if values == "one and the same":
            return [f"{called} = torch.full({shape}, {last}{self._where})"]
        if values == "only sentinels":
            return [f"{called} = torch.full({shape}, {0 if sentinel is None else sentinel}{self._where})"]
        if values == "first and last":
            return [f"{called} = torch.arange({math.prod(shape)}{self._where}).reshape({shape}) % 2 * {last}"]
        drawn = f"torch.randint(0, {max(below, 1)}, {shape}, generator=g{self._where})"
        found = [f"g = {self._generator(self.op.name, name)}", f"{called} = {drawn}"]
        if sentinel is not None:
            instead = 0 if values == "no sentinel" else sentinel
            found.append(f"{called}[torch.rand({shape}, generator=g{self._where}) < 0.1] = {instead}")
        return found

    def _filled(self, x: str, name: str, made: torch.Tensor) -> list[str]:
        """As `values` fills it."""
        kind, rank = self.trial.values[name], made.dim()
        info = torch.finfo(made.dtype)
        g = self._generator(self.op.name, name, kind)
        if kind in ("with ±inf", "with NaN"):
            specials = "(torch.inf, -torch.inf)" if kind == "with ±inf" else "(torch.nan,)"
            which = f"torch.randint(0, {len(specials.split(',')) - specials.endswith(',)')}, {x}.shape, generator=g"
            spared = [f"marks[-1] = False  # of {x}"] if rank > 1 and made.shape[0] > 1 else []
            return [
                f"g = {g}",
                f"marks = torch.rand({x}.shape, generator=g{self._where}) < 0.125",
                *spared,
                f"chosen = torch.tensor({specials}, dtype={x}.dtype{self._where})[{which}{self._where})]",
                f"{x} = torch.where(marks, chosen, {x})",
            ]
        if kind in ("large to overflow", "tiny and denormal"):
            low, high = (0.0, math.log2(info.max) - 0.01)
            if kind == "tiny and denormal":
                low, high = math.log2(info.tiny * info.eps), math.log2(info.tiny * 16)
            drawn = f"torch.rand({x}.shape, generator={g}, dtype=torch.float64{self._where})"
            exponents = f"{low!r} + {drawn} * {high - low!r}" if low else f"{drawn} * {high!r}"
            return [f"{x} = (torch.exp2({exponents}) * torch.where({x} < 0, -1.0, 1.0)).to({x}.dtype)"]
        return {
            "moderately large": [f"{x} = ({x}.double() * 60).to({x}.dtype)"],
            "rows of -inf": [f"{x}[{'::2' if rank > 1 else ':'}] = -torch.inf"] if rank else [],
            "all equal": [f"{x} = torch.full_like({x}, 0.7)"],
            "all zero": [f"{x} = torch.zeros_like({x})"],
            "alternating signs": [f"{x} = {x}.abs() + 1", *([f"{x}[..., 1::2] *= -1"] if rank else [])],
            "one outlier": [f"{x}.view(-1)[{made.numel() // 2}] = 1e4"] if made.numel() else [],
        }[kind]

    def _lay(self, called: str, name: str, x: torch.Tensor) -> list[str]:
        layout = self.trial.layouts.get(name)
        if is_upstream(name) and self.trial.upstream == "non-contiguous":
            layout = "non-contiguous"
        if layout is None and not self._poisoned:
            return []
        self._laid = True
        if layout in ("expanded rows", "expanded columns") and x.numel():
            one = f"{called}[:1]" if layout == "expanded rows" else f"{called}[..., :1]"
            return [f"{called} = lay({one}, {one}.contiguous().stride()).expand({tuple(x.shape)})  # {layout}"]
        offset = f", {x.storage_offset()}" if x.storage_offset() else ""
        return [f"{called} = lay({called}, {tuple(x.stride())}{offset})" + (f"  # {layout}" if layout else "")]

    # The call ------------------------------------------------------------------------------------------

    def _arguments(self, *, double: bool = False, scaled: bool = False) -> str:
        inputs = [(_variable(n), self._made[n]) for n in self.op.args]
        floats = ".double()" if double else " * 0.5" if scaled else ""
        said = [f"{n}{floats}" if t is not None and t.is_floating_point() else n for n, t in inputs]
        options = self.op.call_options(self.trial.case)
        return ", ".join([*said, *(f"{k}={v!r}" for k, v in options.items())])

    def _forward(self) -> list[str]:
        way, reference = f"way({self._arguments()})", f"reference({self._arguments(double=True)})"
        special = self._special(way)
        if special:
            return special
        with torch.no_grad():
            results = self.op.reference(*(self._made[n] for n in self.op.args), **self.op.call_options(self.trial.case))
        if isinstance(results, torch.Tensor):
            return [f"got, want = {way}, {reference}", *self._compared()]
        return [f"for got, want in zip({way}, {reference}):", *(f"    {line}" for line in self._compared())]

    def _special(self, way: str) -> list[str]:
        """What is no matter of values."""
        words = self.reason.split(" ")
        if self.reason.startswith("wrote outside the memory"):
            return ["# what lies around the memory a way allocates is seen by kernellab alone", way]
        if self.status == "error" or (words[0] == "returned" and words[1] != "the"):
            return [f"print({way})"]
        if self.reason.startswith("changed its input"):
            x = _variable(words[3])
            return [f"before = {x}.clone()", way, f'print("{x} is as it was:", torch.equal({x}, before))']
        if self.reason.startswith("returned the memory of"):
            x = _variable(words[6])
            same = f"got.untyped_storage().data_ptr() == {x}.untyped_storage().data_ptr()"
            return [f"got = {way}", f'print("the result lies in the memory of {x}:", {same})']
        if self.reason.startswith(("not repeatable", "its second call")):
            differ = "((first != second) & ~(first.isnan() & second.isnan())).sum()"
            return [
                *(f"first = {way}", "kept = first.clone()", f"second = {way}"),
                f'print("values that differ between two calls:", int({differ}))',
                'print("the first result is as it was:", torch.equal(first, kept))',
            ]
        if self.reason.startswith("its call on other inputs"):
            other = f"way({self._arguments(scaled=True)})"
            same = 'print("the first result is as it was:", torch.equal(first, kept))'
            return [f"first = {way}", "kept = first.clone()", other, same]
        if self.reason.startswith("wrote outside one of its inputs"):
            counted = "int((~room.isnan()).sum()) - x.numel()"
            floats = [_variable(n) for n, t in self._made.items() if t is not None and t.is_floating_point()]
            return [
                f"got = {way}",
                f"for x in ({', '.join(floats)},):",
                "    room = torch.as_strided(x, (x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)",
                f'    print("written around an input:", {counted})',
            ]
        return []

    def _compared(self) -> list[str]:
        if self.reason.split(" ")[0] in _FORMS:
            return [_FORM.format(dtype=f"torch.{self.trial.case.dtype}")]
        return list(_COMPARED)

    def _backward(self) -> list[str]:
        ups = [_variable(n) for n in self._made if is_upstream(n)]
        options = "".join(f", {k}={v!r}" for k, v in self.op.call_options(self.trial.case).items())
        floats = (
            all(t is None or t.is_floating_point() for n, t in self._made.items()) and None not in self._made.values()
        )
        leaf = "t.detach().requires_grad_()"
        leaf = leaf if floats else f"{leaf} if t is not None and t.is_floating_point() else t"
        wanted = "leaves" if floats else "[t for t in leaves if t is not None and t.requires_grad]"
        given = ", ".join(_variable(n) for n in self.op.args)
        double = self._arguments(double=True).removesuffix(options) if options else self._arguments(double=True)
        above, above64 = ", ".join(ups), ", ".join(f"{u}.double()" for u in ups)
        twice = self.trial.call == "backward twice"
        how = "materialize_grads=True" + (", retain_graph=True" if twice else "")
        grad = f"torch.autograd.grad(results, {wanted}, above, {how})"
        found = [
            "def gradients(fn, above, *inputs):",
            f"    leaves = [{leaf} for t in inputs]",
            f"    results = fn(*leaves{options})",
            "    results = [r for r in (results if isinstance(results, (tuple, list)) else [results])"
            " if r.is_floating_point()]",
            *([f"    {grad}"] if twice else []),
            f"    return (*(r.detach() for r in results), *{grad})",
        ]
        way = f"gradients(way, [{above}], {given})"
        special = self._special(way)
        if special:
            return [*found, *special]
        reference = f"gradients(reference, [{above64}], {double})"
        return [*found, f"for got, want in zip({way}, {reference}):", *(f"    {line}" for line in self._compared())]


def _variable(name: str) -> str:
    return name.replace("upstream gradient ", "above_")
