"""Small ops with implementations, examined in this process."""

from __future__ import annotations

import os
import subprocess
import sys

import torch

import kernellab as kl
from kernellab.checking.confirmation import examine_and_confirm
from kernellab.checking.declared_case import CaseChecker
from kernellab.checking.examiner import Examiner
from kernellab.declaration.case import Case
from kernellab.trials.battery import battery
from kernellab.trials.trial import Trial

CPU = torch.device("cpu")


def op_of(reference, reduces="", dims="... N", dtypes=("float32",), **impls):
    """An op of one input, with implementations by name."""
    op = kl.op(args=dict(x=kl.tensor(dims)), reduces=reduces, dtypes=list(dtypes))(reference)
    for name, fn in impls.items():
        op.impl(name)(fn)
    return op


def plane(n=32, m=16):
    """Sizes for an op of `... N`."""
    return {"...": (m,), "N": n}


def examine(op, name, sizes, seed=0, dtype="float32", **fields):
    """The outcome of one implementation at one trial; `fields` are the trial's."""
    trial = Trial("search", Case(sizes, dtype, {n: v[0] for n, v in op.all_options().items()}), **fields)
    examiner = Examiner(op, seed=seed, device=CPU)
    return examine_and_confirm(lambda trial: examiner.examine(op[name], trial), trial)


def check(op, name):
    """The outcome of checking an implementation at a small case and its option values."""
    sizes = {dim: (6,) if dim == "..." else 8 for dim in op.dims}
    case = Case(sizes, "float32", {option: values[0] for option, values in op.all_options().items()})
    return CaseChecker(op, case, seed=0, device=CPU).check(op[name])


def doubling():
    """An op of one input that doubles it."""

    @kl.op
    def double(x):
        return x + x

    return double


def failures(op, *kinds):
    """By implementation: the trials of the battery that it fails; of these kinds, or of all."""
    examiner = Examiner(op, seed=0, device=CPU)
    failed = {}
    for trial in battery(op, "cpu"):
        for impl in op.impls.values():
            if impl.name in ("manual", "compile") or (kinds and trial.kind not in kinds):
                continue
            outcome = examiner.examine(impl, trial)
            if outcome is not None and outcome.failed:
                failed.setdefault(impl.name, []).append(trial)
    return failed


def differentiable(forward, backward):
    """An implementation with its own backward: `backward(ctx, saved, *grads)`."""

    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            ctx.save_for_backward(*inputs)
            ctx.set_materialize_grads(False)
            return forward(*inputs)

        @staticmethod
        def backward(ctx, *grads):
            return backward(ctx, ctx.saved_tensors, *grads)

    return lambda *inputs: Own.apply(*inputs)


def gather_rows():
    """The op of an embedding: rows of a table by index."""

    @kl.op(
        args=dict(w=kl.tensor("V D"), i=kl.index("M", below="V")),
        where=lambda c: c.V > 0,
        cases=kl.cases(V=[4000], D=[4], M=[8], dtype=["float32"]),
    )
    def rows(w, i):
        return w[i]

    return rows


def as_if_stride_one(t):
    """What a kernel reads if it assumes a stride of 1."""
    return t if t is None else torch.as_strided(t, t.shape, (1,) * t.dim())


def run_without_kernellab(text, folder):
    """Run a script in a Python that cannot import kernellab."""
    (folder / "alone.py").write_text(text)
    hidden = (
        "import sys; sys.modules['kernellab'] = None; import runpy; runpy.run_path(sys.argv[1], run_name='__main__')"
    )
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    command = [sys.executable, "-I", "-c", hidden, str(folder / "alone.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
