"""Implementations with mistakes, and what must be reported for each."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

FILE = "op_under_test.py"


@dataclass(frozen=True)
class BadImpl:
    """An implementation with a mistake. In its text, RIGHT is the right result and FIRST the first input."""

    name: str
    body: str
    statuses: tuple[str, ...]
    words: tuple[str, ...]
    decoration: str = ""
    params: str | None = None
    top: str = ""
    keyword: str = "def"


def _bad(name: str, body: str, statuses: str, *words: str, **more: str) -> BadImpl:
    return BadImpl(name, textwrap.dedent(body).strip(), tuple(statuses.split()), words, **more)


_EAT = """
soft, hard = resource.getrlimit(resource.RLIMIT_AS)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), hard))
eaten = []
while True:
    eaten.append(GRAIN)
"""
HOSTILE = """
class Hostile(Exception):
    def __str__(self):
        raise ValueError("not telling")
"""
_MUTE = """
class Mute(Exception):
    def __str__(self):
        return None
"""
DROPPED = """
class Dropped:
    def __init__(self):
        self.me = self
    def __del__(self):
        while True:
            pass
"""

IN_IMPLS = (
    # What it returns
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
    _bad("raises a hostile exception", "raise Hostile", "error", "Hostile", top=HOSTILE),
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
    # The end of the process
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
    _bad("loops in __del__", "Dropped().me = None\nreturn RIGHT", "timeout", "5 s", top=DROPPED),
    _bad("loops in __del__ when collected", "Dropped()\nreturn RIGHT", "timeout", "5 s", top=DROPPED),
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
