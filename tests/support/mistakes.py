"""Op files with random mistakes, and what must be said of each: `generate(seed)` writes one.

A mistake is in a way, in the reference, in the declaration, in the module, or the file is none. Most files have one,
some have two in ways. The same seed gives the same file. What is expected is what a person needs: who is named,
with which status, and words that tell what happened; and that honest ways beside it come out right.
"""

from __future__ import annotations

import os
import random
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FILE = "op_under_test.py"


@dataclass(frozen=True)
class Said:
    """Who must be named, and how. `who` is a way, or `file` (the request is refused), or `reference` (all ways)."""

    who: str
    statuses: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mistake:
    name: str
    write: Callable[[Path], None]  # puts the file, or what stands in its place, at a path
    said: tuple[Said, ...]
    codes: tuple[int, ...]
    honest: tuple[str, ...] = ()  # ways that must be right
    verb: str = "check"
    impls: tuple[str, ...] = ()  # what --impl asks for; `compile` takes longer than the time limit here
    source: str = ""


# Small ops -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SmallOp:
    declaration: str  # arguments of kl.op
    params: str  # of the reference and of every way
    expressions: tuple[str, ...]  # all equal; the first is the reference's
    first: str = "x"

    @property
    def short(self) -> str:
        """Parameters with one tensor too few."""
        names = self.params.split(", ")
        return ", ".join(names[1:] if names[1:] and names[1] != "*" else ["*", *names[2:]] if names[2:] else [])


_SHAPES = ("(16, 24)", "(7, 33)", "(64, 8)", "(1, 129)", "(5,)", "(3, 4, 5)")
_SMALL_OPS = (
    SmallOp(
        "cases=kl.cases(shape=[SHAPE])",
        "x",
        ("x * torch.sigmoid(x)", "torch.nn.functional.silu(x)", "x / (1 + torch.exp(-x))", "torch.sigmoid(x).mul(x)"),
    ),
    SmallOp(
        "cases=kl.cases(shape=[SHAPE], dtype=['float32'])",
        "x, y",
        ("x * y + x", "torch.addcmul(x, x, y)", "(y + 1) * x", "x + y * x"),
    ),
    SmallOp(
        "args=dict(x=kl.tensor('M N')), reduces='N', cases=kl.cases(M=[MSIZE], N=[NSIZE])",
        "x",
        ("x.sum(-1)", "torch.sum(x, dim=1)", "x.flip(-1).sum(-1)", "torch.einsum('mn->m', x)"),
    ),
    SmallOp(
        "args=dict(x=kl.tensor('M N'), at=kl.index('M', below='N')), cases=kl.cases(M=[MSIZE], N=[NSIZE])",
        "x, at",
        (
            "x.gather(1, at[:, None])[:, 0].clone()",
            "x[torch.arange(len(at)), at]",
            "torch.take_along_dim(x, at[:, None], 1).squeeze(1)",
            "torch.stack([row[k] for row, k in zip(x, at)])",
        ),
    ),
    SmallOp(
        "options=dict(scale=[1.0, 0.5], add=[0.0, 2.0]), cases=kl.cases(shape=[SHAPE])",
        "x, *, scale, add",
        ("x * scale + add", "torch.mul(x, scale).add(add)", "add + scale * x", "torch.add(x * scale, add)"),
    ),
)
_HEAD = """\
import builtins, ctypes, gc, json, os, random, resource, signal, subprocess, sys, tempfile, threading, time, warnings
import torch
import kernellab as kl
"""


# Mistakes in a way ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BadWay:
    """RIGHT stands for the right result, FIRST for the first input, NAME for the way's name."""

    name: str
    body: str
    statuses: tuple[str, ...]
    words: tuple[str, ...]
    decoration: str = ""
    params: str | None = None
    top: str = ""
    keyword: str = "def"


def _bad(name: str, body: str, statuses: str, *words: str, **more: str) -> BadWay:
    return BadWay(name, textwrap.dedent(body).strip(), tuple(statuses.split()), words, **more)


_EAT = """
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), hard))
eaten = []
while True:
    eaten.append(GRAIN)
"""
_HOSTILE = """
class Hostile(Exception):
    def __str__(self):
        raise ValueError("not telling")
"""
_MUTE = """
class Mute(Exception):
    def __str__(self):
        return None
"""
_DROPPED = """
class Dropped:
    def __init__(self):
        self.me = self
    def __del__(self):
        while True:
            pass
"""

IN_WAYS = (
    # What comes back
    _bad("returns None", "RIGHT", "wrong", "None"),
    _bad("returns a tuple too many", "y = RIGHT\nreturn y, y.clone()", "wrong", "2 tensors, should be 1"),
    _bad("returns an empty tuple", "return ()", "wrong", "tuple"),
    _bad("returns numpy", "return (RIGHT).numpy()", "wrong", "ndarray"),
    _bad("returns a list of numbers", "return (RIGHT).tolist()", "wrong", "list"),
    _bad("returns a float", "return 1.5", "wrong", "float"),
    _bad("returns a dict", "return {'y': RIGHT}", "wrong", "dict"),
    _bad("returns its own class", "return torch.nn.Linear(2, 2)", "wrong", "Linear"),
    _bad("a generator", "yield RIGHT", "wrong", "generator"),
    _bad("an async function", "return RIGHT", "wrong", "coroutine", keyword="async def"),
    _bad("on the meta device", "return (RIGHT).to('meta')", "wrong", "meta"),
    _bad("double", "return (RIGHT).double()", "wrong", "float64", "float32"),
    _bad("half", "return (RIGHT).half()", "wrong", "float16"),
    _bad("integers", "return (RIGHT).long()", "wrong", "int64"),
    _bad("complex", "return torch.complex(RIGHT, RIGHT)", "wrong", "complex64"),
    _bad("sparse", "return (RIGHT).to_sparse()", "wrong", "sparse"),
    _bad("quantized", "return torch.quantize_per_tensor(RIGHT, 0.1, 0, torch.qint8)", "wrong", "qint8"),
    _bad("zero-dim", "return (RIGHT).sum()", "wrong", "shape", "scalar"),
    _bad("one dim too many", "return (RIGHT)[None]", "wrong", "shape"),
    _bad("one element short", "return (RIGHT)[:-1]", "wrong", "shape"),
    _bad("empty", "return (RIGHT)[:0]", "wrong", "shape"),
    _bad("wrong values", "return (RIGHT) * 1.01 + 0.1", "wrong", "values"),
    _bad("NaN", "y = RIGHT\ny.view(-1)[0] = float('nan')\nreturn y", "wrong", "NaN"),
    _bad("not written", "return torch.empty_like(RIGHT)", "wrong"),
    _bad("random results", "return (RIGHT) + torch.rand(1)", "wrong", "values"),
    _bad("a memory that is gone", "y = RIGHT\ny.untyped_storage().resize_(0)\nreturn y", "wrong crashed error"),
    _bad("other strides", "y = RIGHT\nz = torch.empty(*y.shape, 2)[..., 0]\nreturn z.copy_(y)", "ok"),
    _bad("expanded", "return torch.zeros(1).expand((RIGHT).shape)", "wrong", "values"),
    _bad("requires grad", "return (RIGHT).requires_grad_()", "ok"),
    _bad("a parameter", "return torch.nn.Parameter(RIGHT)", "ok"),
    _bad(
        "a subclass of Tensor", "return (RIGHT).as_subclass(Odd)", "wrong", "Odd", top="class Odd(torch.Tensor): pass"
    ),
    # How it is called
    _bad("one argument too few", "return None", "error", "TypeError", "positional", params="SHORT"),
    _bad("one argument too many", "return RIGHT", "error", "TypeError", "missing", params="MORE"),
    _bad("unknown keyword-only parameter", "return RIGHT", "error", "TypeError", "missing", params="KEYWORD"),
    _bad("not called with options it lacks", "return FIRST", "error wrong", params="x=None, y=None, /"),
    # What it does to its inputs
    _bad("changes its input", "y = RIGHT\nFIRST.add_(1)\nreturn y", "wrong", "changed its input"),
    _bad("resizes its input", "y = RIGHT\nFIRST.resize_(2)\nreturn y", "wrong", "changed its input"),
    _bad("empties its input", "y = RIGHT\nFIRST.set_()\nreturn y", "wrong", "changed its input"),
    _bad("frees its input", "y = RIGHT\nFIRST.untyped_storage().resize_(0)\nreturn y", "wrong crashed"),
    _bad(
        "turns its input",
        "y = RIGHT\nFIRST.unsqueeze_(0)\nreturn y",
        "wrong",
        "changed its input",
    ),
    _bad("asks for its input's gradient", "y = RIGHT\nFIRST.requires_grad_()\nreturn y", "ok"),
    _bad("returns its input", "FIRST.copy_(FIRST)\nreturn FIRST", "wrong"),
    _bad("in place on an expanded tensor", "FIRST[:1].expand(3, *FIRST.shape).add_(1)", "error wrong"),
    # Exceptions
    _bad("raises", "raise ValueError('no luck today')", "error", "ValueError: no luck today", FILE),
    _bad("raises SystemExit", "sys.exit('leaving')", "error", "SystemExit: leaving"),
    _bad("raises KeyboardInterrupt", "raise KeyboardInterrupt", "error", "KeyboardInterrupt"),
    _bad("raises BaseException", "raise BaseException('at the root')", "error", "at the root"),
    _bad("raises GeneratorExit", "raise GeneratorExit", "error", "GeneratorExit"),
    _bad("raises StopIteration", "return next(iter(()))", "error", "StopIteration"),
    _bad("raises a hostile exception", "raise Hostile", "error", "Hostile", top=_HOSTILE),
    _bad("raises a mute exception", "raise Mute", "error", "Mute", top=_MUTE),
    _bad("raises a long message", "raise RuntimeError('long ' * 2_000_000)", "error", "RuntimeError: long long"),
    _bad("raises many lines", r"raise RuntimeError('first\n' + 'more\n' * 200_000)", "error", "RuntimeError: first"),
    _bad("raises unicode", r"raise ValueError('größe Ω 🙂 \x1b[31m \x00')", "error", "ValueError: größe Ω"),
    _bad("raises surrogates", r"raise ValueError('bad \udc80 byte')", "error", "ValueError: bad"),
    _bad("raises a group", "raise ExceptionGroup('several', [ValueError('a')])", "error", "ExceptionGroup: several"),
    _bad("raises without a message", "assert FIRST is None", "error", "AssertionError"),
    _bad(
        "raises a chain",
        "try:\n    1 / 0\nexcept Exception as e:\n    raise OSError('second') from e",
        "error",
        "second",
    ),
    _bad("recurses for ever", "def g(n):\n    return g(n + 1)\nreturn g(0)", "error", "RecursionError"),
    _bad("imports a missing package", "import no_such_package\nreturn RIGHT", "error", "no_such_package"),
    _bad("warnings as errors", "warnings.simplefilter('error')\nwarnings.warn('careful')", "error", "careful"),
    _bad("uses a misspelt name", "return torhc.relu(FIRST)", "error", "NameError", "torhc"),
    # Ends of the process
    _bad("os._exit(0)", "os._exit(0)", "crashed", "code 0"),
    _bad("os._exit(7)", "os._exit(7)", "crashed", "code 7"),
    _bad("os.abort", "os.abort()", "crashed", "SIGABRT"),
    _bad("segmentation fault", "ctypes.string_at(0)", "crashed", "SIGSEGV"),
    _bad("writes to address 8", "ctypes.memset(8, 1, 64)", "crashed", "SIGSEGV"),
    _bad("kill -9 of itself", "os.kill(os.getpid(), signal.SIGKILL)", "crashed", "SIGKILL"),
    _bad("kill -9 of its group", "os.killpg(0, signal.SIGKILL)", "crashed", "SIGKILL"),
    _bad("kill -TERM of itself", "os.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(9)", "crashed", "SIGTERM"),
    _bad("a fault of arithmetic", "os.kill(os.getpid(), signal.SIGFPE)\ntime.sleep(9)", "crashed", "SIGFPE"),
    _bad(
        "a stack overflow in C",
        "sys.setrecursionlimit(10**9)\ndef g():\n    return [*map(lambda _: g(), [1])]\ng()",
        "crashed error timeout",
    ),
    _bad("an unusual signal", "os.kill(os.getpid(), signal.SIGRTMIN + 3)\ntime.sleep(9)", "crashed", "killed"),
    # Memory
    _bad("petabytes by torch", "return torch.empty(1 << 50)", "oom"),
    _bad("petabytes by Python", "return bytes(1 << 50)", "oom"),
    _bad("a list too long", "return [None] * (1 << 60)", "oom"),
    _bad("too large for a size", "return torch.empty(1 << 62, 1 << 62)", "error oom"),
    _bad("eats memory in Python", _EAT.replace("GRAIN", "bytearray(1 << 22)"), "oom"),
    _bad("eats memory in torch", _EAT.replace("GRAIN", "torch.ones(1 << 20)"), "oom"),
    _bad("eats memory in small grains", _EAT.replace("GRAIN", "[0] * 1000"), "oom timeout crashed"),
    # Time
    _bad("loops for ever", "while True:\n    pass", "timeout", "5 s"),
    _bad("sleeps for ever", "time.sleep(1e6)", "timeout", "5 s"),
    _bad("sleeps in C holding the lock", "ctypes.PyDLL(None).sleep(10**6)", "timeout", "5 s"),
    _bad("deadlocks", "lock = threading.Lock()\nlock.acquire()\nlock.acquire()", "timeout", "5 s"),
    _bad(
        "swallows every exception",
        "while True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
        "timeout",
        "5 s",
    ),
    _bad("stops itself", "os.kill(os.getpid(), signal.SIGSTOP)", "timeout", "5 s"),
    _bad("waits for a child", "subprocess.run(['sleep', '100000'])", "timeout", "5 s"),
    _bad("reads standard input", "return sys.stdin.read() and RIGHT", "wrong", "returned a str"),
    _bad("reads from a pipe nobody writes", "r, w = os.pipe()\nos.read(r, 1)", "timeout", "5 s"),
    _bad("prints for ever", "while True:\n    print('.', flush=True)\n    time.sleep(0.01)", "timeout", "5 s"),
    _bad("loops in __del__", "Dropped().me = None\nreturn RIGHT", "timeout", "5 s", top=_DROPPED),
    _bad("loops in __del__ when collected", "Dropped()\nreturn RIGHT", "timeout", "5 s", top=_DROPPED),
    _bad(
        "loops in supports=",
        "return RIGHT",
        "timeout",
        "5 s",
        decoration="supports=endless",
        top="def endless(case):\n    while True: pass",
    ),
    _bad("sleeps in supports=", "return RIGHT", "timeout", "5 s", decoration="supports=lambda case: time.sleep(1e6)"),
    # supports=
    _bad(
        "supports= raises",
        "return RIGHT",
        "error",
        "supports= failed",
        "ZeroDivisionError",
        decoration="supports=lambda case: 1 / 0",
    ),
    _bad(
        "supports= exits",
        "return RIGHT",
        "error",
        "supports= failed",
        "SystemExit",
        decoration="supports=lambda case: sys.exit(0)",
    ),
    _bad(
        "supports= ends the process",
        "return RIGHT",
        "crashed",
        "code 0",
        decoration="supports=lambda case: os._exit(0)",
    ),
    _bad(
        "supports= names no dim",
        "return RIGHT",
        "error",
        "supports= failed",
        "Q",
        decoration="supports=lambda case: case.Q > 3",
    ),
    _bad("supports= is no function", "return RIGHT", "error", "supports= failed", decoration="supports='always'"),
    _bad("supports= takes nothing", "return RIGHT", "error", "supports= failed", decoration="supports=lambda: True"),
    _bad(
        "supports= returns None",
        "return RIGHT",
        "skipped error",
        "supports=",
        "None",
        decoration="supports=lambda case: None",
    ),
    _bad(
        "supports= returns a number",
        "return RIGHT",
        "skipped error",
        "supports=",
        decoration="supports=lambda case: 3.5",
    ),
    _bad(
        "supports= returns a tensor",
        "return RIGHT",
        "skipped error",
        "supports=",
        decoration="supports=lambda case: torch.ones(3)",
    ),
    _bad("supports= says no", "return RIGHT", "skipped", "declared domain", decoration="supports=lambda case: False"),
    _bad(
        "supports= gives no reason", "return RIGHT", "skipped", "declared domain", decoration="supports=lambda case: ''"
    ),
    # What it leaves behind
    _bad("leaves a thread", "threading.Thread(target=time.sleep, args=(1e6,)).start()\nreturn RIGHT", "ok"),
    _bad(
        "leaves a busy thread",
        "threading.Thread(target=lambda: [None for _ in iter(int, 1)]).start()\nreturn RIGHT",
        "ok",
    ),
    _bad("leaves a failing thread", "threading.Thread(target=lambda: 1 / 0).start()\nreturn RIGHT", "ok"),
    _bad("leaves a child", "subprocess.Popen(['sleep', '60'])\nreturn RIGHT", "ok"),
    _bad("forks and both go on", "os.fork()\nreturn RIGHT", "ok"),
    _bad("forks and the child loops", "if os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)\nreturn RIGHT", "ok"),
    _bad("prints megabytes", "print('x' * (8 << 20))\nreturn RIGHT", "ok"),
    _bad("prints megabytes of errors", "sys.stderr.write('y\\n' * (4 << 20))\nreturn RIGHT", "ok"),
    _bad("prints what no terminal takes", "os.write(1, bytes(range(256)) * 99)\nreturn RIGHT", "ok"),
    _bad("closes 0, 1 and 2", "for fd in (0, 1, 2):\n    os.close(fd)\nreturn RIGHT", "ok crashed error"),
    _bad("closes sys.stdout", "sys.stdout.close()\nsys.stderr.close()\nreturn RIGHT", "ok"),
    _bad("closes all descriptors", "os.closerange(0, 4096)\nreturn RIGHT", "crashed"),
    _bad(
        "closes all descriptors and opens others",
        "os.closerange(0, 4096)\nf.kept = [open('/dev/null', 'w') for _ in range(64)]\nreturn RIGHT",
        "crashed timeout",
    ),
    _bad(
        "uses up all descriptors",
        "try:\n    while True:\n        os.open('/dev/null', 0)\nexcept OSError:\n    return RIGHT",
        "ok error",
    ),
    _bad("changes the folder", "os.chdir('/')\nreturn RIGHT", "ok", "folder"),
    _bad("removes its folder", "os.chdir(d := tempfile.mkdtemp())\nos.rmdir(d)\nreturn RIGHT", "ok", "folder"),
    _bad(
        "ignores signals",
        "for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):\n    signal.signal(s, signal.SIG_IGN)\nreturn RIGHT",
        "ok",
    ),
    _bad(
        "ignores signals and loops",
        "for s in (signal.SIGTERM, signal.SIGINT):\n    signal.signal(s, signal.SIG_IGN)\nwhile True:\n    pass",
        "timeout",
        "5 s",
    ),
    _bad("leaves an alarm", "signal.setitimer(signal.ITIMER_REAL, 0.5)\nreturn RIGHT", "ok", "alarm"),
    _bad("replaces a function of torch", "torch.relu = None\nreturn RIGHT", "ok", "replaced torch.relu"),
    _bad(
        "replaces a method of Tensor",
        "torch.Tensor.clone = lambda t: t\nreturn RIGHT",
        "ok wrong",
        "replaced torch.Tensor.clone",
    ),
    _bad("replaces torch.equal", "torch.equal = lambda a, b: False\nreturn RIGHT", "ok wrong", "replaced torch.equal"),
    _bad(
        "replaces json.dumps",
        "json.dumps = lambda *a, **k: 'nonsense'\nreturn RIGHT",
        "crashed",
        "broke the connection",
    ),
    _bad("replaces json.dumps by what raises", "json.dumps = None\nreturn RIGHT", "crashed error"),
    _bad("replaces open", "builtins.open = None\nreturn RIGHT", "ok", "replaced builtins.open"),
    _bad("replaces time", "time.perf_counter = time.monotonic = lambda: 0.0\nreturn RIGHT", "ok", "replaced time."),
    _bad("replaces print", "builtins.print = lambda *a: 1 / 0\nreturn RIGHT", "ok", "replaced builtins.print"),
    _bad("sets the default dtype", "torch.set_default_dtype(torch.float64)\nreturn RIGHT", "ok", "default dtype"),
    _bad("sets the default device", "torch.set_default_device('meta')\nreturn RIGHT", "ok", "default device"),
    _bad(
        "sets the threads",
        "torch.set_num_threads(1 + torch.get_num_threads() % 2)\nreturn RIGHT",
        "ok",
        "number of threads",
    ),
    _bad("switches gradients off", "torch.set_grad_enabled(True)\nreturn RIGHT", "ok"),
    _bad("seeds torch", "torch.manual_seed(random.randrange(10**6))\nreturn RIGHT", "ok", "random generator"),
    _bad("leaves warnings as errors", "warnings.simplefilter('error')\nreturn RIGHT", "ok"),
    _bad(
        "leaves a limit on memory",
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 20, resource.RLIM_INFINITY))\nreturn RIGHT",
        "ok oom error",
        "limit",
    ),
    _bad(
        "leaves a small recursion limit",
        "y = RIGHT\nsys.setrecursionlimit(60)\nreturn y",
        "ok error",
        "recursion limit",
    ),
    _bad("switches the collector off", "gc.disable()\nreturn RIGHT", "ok"),
    _bad("forgets modules", "sys.modules.pop('torch.nn.functional', None)\nreturn RIGHT", "ok"),
    _bad("empties the path", "sys.path.clear()\nreturn RIGHT", "ok"),
)

# Honest ways that would notice what a neighbour left behind.
_WATCHFUL = (
    "assert os.getcwd() and open('/dev/null')",
    "warnings.warn('nothing of importance')",
    "torch.ones(1 << 20)",
    "time.sleep(0.1)",
    "assert torch.zeros(1).dtype == torch.float32",
    "json.dumps([1])",
    "gc.collect()",
)


# Mistakes elsewhere --------------------------------------------------------------------------------------

# In the reference: every way is `unknown`, and the reason says that it is the reference.
IN_REFERENCE = {
    "returns None": ("RIGHT", "None"),
    "returns numpy": ("return (RIGHT).numpy()", "ndarray"),
    "returns a list of numbers": ("return (RIGHT).tolist()", "list"),
    "is a generator": ("yield RIGHT", "generator"),
    "raises": ("raise ValueError('no luck today')", "no luck today"),
    "raises SystemExit": ("sys.exit(3)", "SystemExit"),
    "raises a hostile exception": ("raise Hostile", "Hostile"),
    "loops for ever": ("while True:\n    pass", "no end within"),
    "sleeps for ever": ("time.sleep(1e6)", "no end within"),
    "ends the process": ("os._exit(0)", "code 0"),
    "crashes": ("ctypes.string_at(0)", "SIGSEGV"),
    "kills its process": ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL"),
    "petabytes": ("return torch.empty(1 << 50)", "memory"),
    "changes its input": ("y = RIGHT\nFIRST.add_(1)\nreturn y", "changes its input"),
    "resizes its input": ("y = RIGHT\nFIRST.resize_(2)\nreturn y", ""),
    "is random": ("return torch.randn((RIGHT).shape, dtype=FIRST.dtype)", ""),
    "complex": ("return torch.complex(RIGHT, RIGHT)", "complex"),
    "sparse": ("return (RIGHT).to_sparse()", "sparse"),
    "on the meta device": ("return (RIGHT).to('meta')", "meta"),
    "imports a missing package": ("import no_such_package", "no_such_package"),
    "closes all descriptors": ("os.closerange(0, 4096)\nreturn RIGHT", ""),
    "returns an empty tuple": ("return ()", "tuple"),
    "an async function": ("ASYNC", "coroutine"),
}

# In the module, before or after the declaration: refused with exit code 2, the file and the line named.
IN_MODULE = {
    "raises": ("raise RuntimeError('not today')", ("RuntimeError: not today",)),
    "raises SystemExit": ("sys.exit(0)", ("SystemExit",)),
    "raises KeyboardInterrupt": ("raise KeyboardInterrupt", ("KeyboardInterrupt",)),
    "raises BaseException": ("raise BaseException('at the root')", ("at the root",)),
    "recurses for ever": ("def g(): g()\ng()", ("RecursionError",)),
    "recurses by turns": ("def g(): h()\ndef h(): g()\ng()", ("RecursionError",)),
    "imports a missing package": ("import no_such_package", ("no_such_package",)),
    "imports a missing name": ("from torch import no_such_name", ("no_such_name",)),
    "a syntax error": ("def g(:\n    pass", ("syntax error",)),
    "a bad indent": ("if True:\nx = 1", ("syntax error",)),
    "a null byte": ("x = '\x00'", ("null",)),
    "a hostile exception": (_HOSTILE + "raise Hostile", ("Hostile",)),
    "a long message": ("raise RuntimeError('long ' * 2_000_000)", ("RuntimeError: long",)),
    "surrogates": (r"raise RuntimeError('bad \udc80 byte')", ("RuntimeError: bad",)),
    "ends the process": ("os._exit(0)", ("code 0",)),
    "aborts": ("os.abort()", ("SIGABRT",)),
    "crashes": ("ctypes.string_at(0)", ("SIGSEGV",)),
    "kills its process": ("os.kill(os.getpid(), signal.SIGKILL)", ("SIGKILL",)),
    "loops for ever": ("while True:\n    pass", ("no end within",)),
    "sleeps for ever": ("time.sleep(1e6)", ("no end within",)),
    "deadlocks": ("lock = threading.Lock()\nlock.acquire()\nlock.acquire()", ("no end within",)),
    "petabytes": ("eaten = torch.empty(1 << 50)", ("memory",)),
    "petabytes by Python": ("eaten = bytes(1 << 50)", ("MemoryError",)),
    "closes all descriptors": ("os.closerange(0, 4096)", ()),
    "replaces json.dumps": ("json.dumps = lambda *a, **k: 'nonsense'", ("broke the connection",)),
    "forgets to declare": ("kl.op = lambda **k: lambda fn: fn", ("impl",)),
}

# In the module, and harmless to the ways: everything comes out right.
HARMLESS = {
    "prints megabytes": "print('x' * (8 << 20)); sys.stderr.write('y' * (8 << 20))",
    "sets the default dtype": "torch.set_default_dtype(torch.float64)",
    "sets one thread": "torch.set_num_threads(1)",
    "leaves a thread": "threading.Thread(target=time.sleep, args=(1e6,)).start()",
    "leaves a child": "subprocess.Popen(['sleep', '60'])",
    "changes the folder": "os.chdir('/')",
    "removes its folder": "os.chdir(d := tempfile.mkdtemp()); os.rmdir(d)",
    "closes 0, 1 and 2": "os.close(0); os.close(1); os.close(2)",
    "ignores signals": "signal.signal(signal.SIGTERM, signal.SIG_IGN); signal.signal(signal.SIGINT, signal.SIG_IGN)",
    "warnings as errors": "warnings.simplefilter('error')",
    "replaces print": "builtins.print = None",
    "replaces open": "builtins.open = None",
    "switches gradients off": "torch.set_grad_enabled(False)",
    "forks": "os.fork() == 0 and (time.sleep(60), os._exit(0))",
    "loops in __del__ at the end": _DROPPED + "at_the_end = Dropped()",
    "cost= raises": "f.cost = lambda *a, **k: 1 / 0",
}

# In the declaration: DECL replaces the arguments of kl.op, AFTER follows the honest ways. Exit code 2.
IN_DECLARATION: dict[str, tuple[str | None, str, tuple[str, ...]]] = {
    "the same way twice": (
        None,
        "f.impl('way-one')(lambda x: x)\nf.impl('way-one')(lambda x: x)",
        ("way-one", "already"),
    ),
    "an option it does not take": ("options=dict(slope=[1]), cases=kl.cases(shape=[(4, 4)])", "", ("option slope",)),
    "an option without values": ("options=dict(scale=[]), cases=kl.cases(shape=[(4, 4)])", "", ("option",)),
    "an option that is no list": ("options=dict(scale=3), cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "commas in kl.tensor": ("args=dict(x=kl.tensor('M,N')), cases=kl.cases(M=[4], N=[4])", "", ("M,N",)),
    "numbers in kl.tensor": ("args=dict(x=kl.tensor('4 4')), cases=kl.cases(shape=[(4, 4)])", "", ("4 4",)),
    "a tuple in kl.tensor": ("args=dict(x=kl.tensor(('M', 'N'))), cases=kl.cases(M=[4], N=[4])", "", (FILE,)),
    "args= of another name": ("args=dict(z=kl.tensor('M N')), cases=kl.cases(M=[4], N=[4])", "", ("args=", "z")),
    "args= a shape": ("args=dict(x=(4, 4)), cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "reduces= no dim": ("reduces='Q', cases=kl.cases(shape=[(4, 4)])", "", ("no dim Q",)),
    "a dtype there is not": ("cases=kl.cases(shape=[(4, 4)], dtype=['float31'])", "", ("float31",)),
    "a dtype of torch": ("cases=kl.cases(shape=[(4, 4)], dtype=[torch.float32])", "", ("torch.float32",)),
    "an integer dtype": ("cases=kl.cases(shape=[(4, 4)], dtype=['int32'])", "", ("int32",)),
    "a negative size": ("cases=kl.cases(shape=[(4, -4)])", "", ("-4",)),
    "half a size": ("cases=kl.cases(shape=[(4, 2.5)])", "", ("2.5",)),
    "a size in words": ("cases=kl.cases(shape=[('four', 4)])", "", ("four",)),
    "a shape that is a number": ("cases=kl.cases(shape=64)", "", ("64",)),
    "shapes one level short": ("cases=kl.cases(shape=[4, 4])", "", ("4",)),
    "a dim it does not have": ("cases=kl.cases(shape=[(4, 4)], Q=[4])", "", ("Q",)),
    "no cases": ("", "", ("size",)),
    "no sizes": ("cases=kl.cases(dtype=['float32'])", "", ("size",)),
    "cases= a list": ("cases=[(4, 4)]", "", (FILE,)),
    "where= raises": ("cases=kl.cases(shape=[(4, 4)]), where=lambda case: case.Q", "", ("where=", "Q")),
    "where= is no function": ("cases=kl.cases(shape=[(4, 4)]), where=3", "", ("where=",)),
    "where= loops": ("cases=kl.cases(shape=[(4, 4)]), where=lambda case: time.sleep(1e6)", "", ("no end within",)),
    "where= says no": ("cases=kl.cases(shape=[(4, 4)]), where=lambda case: False", "", ("where=",)),
    "a gigantic list of options": ("options=dict(scale=range(10**7)), cases=kl.cases(shape=[(4, 4)])", "", ("scale",)),
    "gigantic combinations": (
        "options=dict(scale=range(3000), add=range(3000)), cases=kl.cases(shape=[(4, 4)])",
        "",
        ("option",),
    ),
    "an unknown argument": ("cases=kl.cases(shape=[(4, 4)]), shape=(4, 4)", "", ("shape",)),
    "an unknown kind": (None, "f.impl('way-odd', kind='rust')(lambda x: x)", ("rust",)),
    "mutates= no input": (None, "f.impl('way-odd', mutates=['q'])(lambda x: x)", ("way-odd", "q")),
    "a way that is no function": (None, "f.impl('way-odd')(3)", ("way-odd",)),
    "a way without a name": (None, "@f.impl\ndef _(x):\n    return x", (FILE,)),
    "a way named by a number": (None, "f.impl(3)(lambda x: x)", (FILE,)),
    "an op without inputs": ("PARAMS", "", ("no tensor",)),
    "an op named by a number": ("name=3, cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "an op named by a list": ("name=['f'], cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "two ops of a name": (None, "@kl.op\ndef f(x):\n    return x", ("two ops are named f",)),
}

# Odd, but allowed: everything comes out right, or is refused in a sentence.
ODD_NAMES = (
    "../../up",
    "a b",
    "größe",
    "[/]",
    "a\\nb",
    "",
    "x" * 300,
    "\\udc80",
    "-",
    "a:b",
    "*",
    "'\"",
    "\\x1b[31m",
    "a/b",
)


# The file itself -----------------------------------------------------------------------------------------


def _no_access(path: Path) -> None:
    path.write_text("raise RuntimeError('was read')")
    path.chmod(0)


# Name → how it is made, and words besides the file's name.
NO_FILE: dict[str, tuple[Callable[[Path], object], tuple[str, ...]]] = {
    "empty": (lambda p: p.write_text(""), ("declares no op",)),
    "only a comment": (lambda p: p.write_text("# nothing yet\n"), ("declares no op",)),
    "not Python": (lambda p: p.write_text("Dear diary,\n\ntoday I wrote no kernel.\n"), ("syntax error",)),
    "binary": (lambda p: p.write_bytes(bytes(range(256)) * 64), ("syntax error",)),
    "zeros": (lambda p: p.write_bytes(bytes(4096)), ("null",)),
    "not UTF-8": (lambda p: p.write_bytes("größe = 1\n".encode("latin-1")), ("syntax error",)),
    "UTF-16": (lambda p: p.write_bytes("import torch\n".encode("utf-16")), ("syntax error",)),
    "JSON": (lambda p: p.write_text('{"shape": [4, 4], "dtype": null}'), ("null",)),
    "too many brackets": (lambda p: p.write_text("(" * 5000), (FILE,)),
    "a very long sum": (lambda p: p.write_text("x = " + "1+" * 100_000 + "1"), (FILE,)),
    "a folder": (lambda p: p.mkdir(), (FILE,)),
    "not there": (lambda p: None, (FILE,)),
    "a dangling link": (lambda p: p.symlink_to(p.parent / "nowhere.py"), (FILE,)),
    "a loop of links": (lambda p: p.symlink_to(p), (FILE,)),
    "a pipe": (lambda p: os.mkfifo(p), (FILE,)),
    "not readable": (_no_access, ("could not be loaded", "RuntimeError" if os.geteuid() == 0 else "Permission")),
}


# Putting a file together ---------------------------------------------------------------------------------


def generate(seed: int) -> Mistake:
    """The op file of a seed."""
    chance = random.Random(seed)
    where = chance.choices(
        ["way", "two ways", "reference", "module", "harmless", "declaration", "name", "no file", "cost"],
        [52, 14, 9, 9, 5, 9, 2, 4, 1],
    )[0]
    return {
        "way": lambda: in_ways(chance, [chance.choice(IN_WAYS)]),
        "two ways": lambda: in_ways(chance, chance.sample(IN_WAYS, 2)),
        "reference": lambda: in_reference(chance, chance.choice(sorted(IN_REFERENCE))),
        "module": lambda: in_module(chance, chance.choice(sorted(IN_MODULE))),
        "harmless": lambda: harmless(chance, chance.choice(sorted(HARMLESS))),
        "declaration": lambda: in_declaration(chance, chance.choice(sorted(IN_DECLARATION))),
        "name": lambda: odd_name(chance, chance.choice(ODD_NAMES)),
        "no file": lambda: no_file(chance.choice(sorted(NO_FILE))),
        "cost": lambda: cost(chance),
    }[where]()


def every_one(seed: int = 0) -> list[Mistake]:
    """Each mistake once, in an op of the seed's choice."""
    chance = random.Random(seed)
    return [
        *(in_ways(chance, [bad]) for bad in IN_WAYS),
        *(in_ways(chance, [bad], name="torch") for bad in IN_WAYS),
        *(in_reference(chance, name) for name in IN_REFERENCE),
        *(in_module(chance, name) for name in IN_MODULE),
        *(harmless(chance, name) for name in HARMLESS),
        *(in_declaration(chance, name) for name in IN_DECLARATION),
        *(odd_name(chance, name) for name in ODD_NAMES),
        *(no_file(name) for name in NO_FILE),
        cost(chance),
    ]


def in_ways(chance: random.Random, bad: list[BadWay], name: str | None = None) -> Mistake:
    small = _small_op(chance)
    honest = _honest(chance, small)
    parts, said, impls = list(honest.items()), [], ["manual", *honest]
    for number, mistake in enumerate(bad):
        # PyTorch's own way is the yardstick for the others: a bad one must not make them look bad.
        called = name or (
            "torch" if number == 0 and "torch" not in honest and chance.random() < 0.2 else f"bad-{number}"
        )
        if called == "torch":
            parts = [(n, text) for n, text in parts if n != "torch"]
            impls = [n for n in impls if n != "torch"]
        parts.insert(chance.randint(0, len(parts)), (called, _way(small, called, mistake)))
        impls.append(called)
        said.append(Said(called, mistake.statuses, mistake.words))
    source = _declared(small) + "".join(text for _, text in parts)
    good = tuple(n for n in impls if n not in {s.who for s in said})
    label = " + ".join(f"a way: {b.name}" if i == 0 else b.name for i, b in enumerate(bad))
    if "torch" in {s.who for s in said}:
        label += " (as torch)"
    return _mistake(label, source, said, honest=good, impls=tuple(impls))


def in_reference(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    body, word = IN_REFERENCE[name]
    keyword = "async def" if body == "ASYNC" else "def"
    body = _filled(small, "return RIGHT" if body == "ASYNC" else body, small.expressions[0])
    honest = _honest(chance, small)
    source = _HEAD + _HOSTILE + f"\n@kl.op({small.declaration})\n{keyword} f({small.params}):\n"
    source += textwrap.indent(body, "    ") + "\n" + "".join(honest.values())
    said = Said(
        "reference", ("unknown",), ("reference" if name not in ("is random", "petabytes", "complex") else "", word)
    )
    return _mistake(f"the reference: {name}", source, [said], impls=("manual", *honest))


def in_module(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    text, words = IN_MODULE[name]
    honest = "".join(_honest(chance, small).values())
    early = name == "forgets to declare" or chance.random() < 0.5
    source = _declared(small).replace(_HEAD, _HEAD + text + "\n") if early else _declared(small) + honest + "\n" + text
    source += honest if early else "\n"
    return _mistake(f"the module: {name}", source, [Said("file", words=(FILE, *words))], impls=("manual",))


def harmless(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    honest = _honest(chance, small, watchful=False)
    text = HARMLESS[name]
    early = "f.cost" not in text and chance.random() < 0.5
    source = _declared(small).replace(_HEAD, _HEAD + text + "\n") if early else _declared(small)
    source += "".join(honest.values()) + ("" if early else "\n" + text + "\n")
    return _mistake(f"the module, harmless: {name}", source, [], honest=("manual", *honest), impls=("manual", *honest))


def in_declaration(chance: random.Random, name: str) -> Mistake:
    declaration, after, words = IN_DECLARATION[name]
    params = {"PARAMS": "", None: "x"}.get(declaration, "x, *, scale=1, add=0")
    given = "cases=kl.cases(shape=[(4, 4)])" if declaration in (None, "PARAMS") else declaration
    source = _HEAD + f"\n@kl.op({given})\ndef f({params}):\n    return x * 2\n"
    source += f"\n@f.impl('way-zero')\ndef _({params}):\n    return x + x\n{after}\n"
    return _mistake(f"the declaration: {name}", source, [Said("file", words=(FILE, *words))], impls=("manual",))


def odd_name(chance: random.Random, name: str) -> Mistake:
    small = _small_op(chance)
    honest = _honest(chance, small, watchful=False)
    source = _HEAD + f'\n@kl.op(name="{name}", {small.declaration})\ndef f({small.params}):\n'.replace("'\"", "'\\\"")
    source += f"    return {small.expressions[0]}\n" + "".join(honest.values())
    source += f'\n@f.impl("{name}")\ndef _({small.params}):\n    return {small.expressions[-1]}\n'.replace(
        "'\"", "'\\\""
    )
    return _mistake(f"odd names: {name[:12]}", source, [], honest=("manual", *honest), impls=("manual", *honest))


def no_file(name: str) -> Mistake:
    make, words = NO_FILE[name]
    return Mistake(f"the file: {name}", lambda path: (make(path), None)[1], (Said("file", words=(FILE, *words)),), (2,))


def cost(chance: random.Random) -> Mistake:
    """Only what is timed has a limit to be held against, so only `klab run` asks for its cost."""
    small = _small_op(chance)
    source = _declared(small) + "\nf.cost = lambda *a, **k: time.sleep(1e6)\n"
    said = Said("manual", ("timeout", "error"), ("cost=",))
    return _mistake("cost= sleeps for ever", source, [said], impls=("manual",), verb="run")


def _mistake(
    name: str,
    source: str,
    said: list[Said],
    *,
    honest: tuple[str, ...] = (),
    impls: tuple[str, ...] = (),
    verb: str = "check",
) -> Mistake:
    def write(path: Path) -> None:
        path.write_bytes(source.encode())

    return Mistake(name, write, tuple(said), _codes(said), honest, verb, impls, source)


def _codes(said: list[Said]) -> tuple[int, ...]:
    """0 where nothing need be wrong, 1 where something must be, 2 for a refusal, 3 where nobody can tell."""
    if any(s.who == "file" for s in said):
        return (2,)
    if any(s.who == "reference" for s in said):
        return (3,)
    fine = {"ok", "skipped"}
    if any(not fine & set(s.statuses) for s in said):
        return (1,)
    return (0,) if all(fine >= set(s.statuses) for s in said) else (0, 1)


def _small_op(chance: random.Random) -> SmallOp:
    small = chance.choice(_SMALL_OPS)
    sizes = {
        "SHAPE": chance.choice(_SHAPES),
        "MSIZE": str(chance.choice((3, 16, 40))),
        "NSIZE": str(chance.choice((2, 33, 64))),
    }
    declaration = small.declaration
    for word, size in sizes.items():
        declaration = declaration.replace(word, size)
    return SmallOp(declaration, small.params, small.expressions, small.first)


def _declared(small: SmallOp) -> str:
    return _HEAD + f"\n@kl.op({small.declaration})\ndef f({small.params}):\n    return {small.expressions[0]}\n"


def _honest(chance: random.Random, small: SmallOp, *, watchful: bool = True) -> dict[str, str]:
    """Two to four ways that are right, by name; some look around first."""
    ways = {}
    for number in range(chance.randint(2, 4)):
        name = "torch" if number == 0 and chance.random() < 0.3 else f"way-{number}"
        looks = f"    {chance.choice(_WATCHFUL)}\n" if watchful and chance.random() < 0.5 else ""
        result = small.expressions[1 + number % 3]
        ways[name] = f'\n@f.impl("{name}")\ndef _({small.params}):\n{looks}    return {result}\n'
    return ways


def _way(small: SmallOp, name: str, bad: BadWay) -> str:
    names = small.params.split(", ")
    forms = {
        None: small.params,
        "SHORT": small.short,
        "MORE": ", ".join([names[0], "another", *names[1:]]),
        "KEYWORD": small.params + (", unheard" if "*" in names else ", *, unheard"),
    }
    params = forms.get(bad.params, bad.params)
    decoration = f", {bad.decoration}" if bad.decoration else ""
    body = textwrap.indent(_filled(small, bad.body, small.expressions[1]), "    ")
    return f'\n{bad.top}\n@f.impl("{name}"{decoration})\n{bad.keyword} _({params}):\n{body}\n'


def _filled(small: SmallOp, body: str, right: str) -> str:
    return body.replace("RIGHT", right).replace("FIRST", small.first)
