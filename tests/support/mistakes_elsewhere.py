"""Mistakes in the reference, the module, the declaration and the file itself, and what must be reported for each."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from support.mistakes_in_impls import DROPPED, FILE, HOSTILE

# In the reference: every implementation is `unknown`, and the reason names the reference.
IN_REFERENCE = {
    "returns None": ("RIGHT", "None"),
    "returns numpy": ("return (RIGHT).numpy()", "ndarray"),
    "returns a list of numbers": ("return (RIGHT).tolist()", "list"),
    "is a generator": ("yield RIGHT", "generator"),
    "raises": ("raise ValueError('no luck today')", "no luck today"),
    "raises SystemExit": ("sys.exit(3)", "SystemExit"),
    "raises a hostile exception": ("raise Hostile", "Hostile"),
    "loops for ever": ("while True:\n    pass", "not finish within"),
    "sleeps for ever": ("time.sleep(1e6)", "not finish within"),
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
    "a hostile exception": (HOSTILE + "raise Hostile", ("Hostile",)),
    "a long message": ("raise RuntimeError('long ' * 2_000_000)", ("RuntimeError: long",)),
    "surrogates": (r"raise RuntimeError('bad \udc80 byte')", ("RuntimeError: bad",)),
    "ends the process": ("os._exit(0)", ("code 0",)),
    "aborts": ("os.abort()", ("SIGABRT",)),
    "crashes": ("ctypes.string_at(0)", ("SIGSEGV",)),
    "kills its process": ("os.kill(os.getpid(), signal.SIGKILL)", ("SIGKILL",)),
    "loops for ever": ("while True:\n    pass", ("not finish within",)),
    "sleeps for ever": ("time.sleep(1e6)", ("not finish within",)),
    "deadlocks": ("lock = threading.Lock()\nlock.acquire()\nlock.acquire()", ("not finish within",)),
    "petabytes": ("eaten = torch.empty(1 << 50)", ("memory",)),
    "petabytes by Python": ("eaten = bytes(1 << 50)", ("MemoryError",)),
    "closes all descriptors": ("os.closerange(0, 4096)", ()),
    "replaces json.dumps": ("json.dumps = lambda *a, **k: 'nonsense'", ("broke the connection",)),
    "forgets to declare": ("kl.op = lambda **k: lambda fn: fn", ("impl",)),
}

# In the module, and harmless: every implementation is right.
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
    "loops in __del__ at the end": DROPPED + "at_the_end = Dropped()",
    "cost= raises": "f.cost = lambda *a, **k: 1 / 0",
}

# In the declaration: the arguments of kl.op, and lines after the right implementations. Exit code 2.
IN_DECLARATION: dict[str, tuple[str | None, str, tuple[str, ...]]] = {
    "the same implementation twice": (
        None,
        "f.impl('impl-one')(lambda x: x)\nf.impl('impl-one')(lambda x: x)",
        ("impl-one", "already"),
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
    "where= loops": ("cases=kl.cases(shape=[(4, 4)]), where=lambda case: time.sleep(1e6)", "", ("not finish within",)),
    "where= says no": ("cases=kl.cases(shape=[(4, 4)]), where=lambda case: False", "", ("where=",)),
    "a gigantic list of options": ("options=dict(scale=range(10**7)), cases=kl.cases(shape=[(4, 4)])", "", ("scale",)),
    "gigantic combinations": (
        "options=dict(scale=range(3000), add=range(3000)), cases=kl.cases(shape=[(4, 4)])",
        "",
        ("option",),
    ),
    "an unknown argument": ("cases=kl.cases(shape=[(4, 4)]), shape=(4, 4)", "", ("shape",)),
    "an unknown kind": (None, "f.impl('impl-odd', kind='rust')(lambda x: x)", ("rust",)),
    "mutates= no input": (None, "f.impl('impl-odd', mutates=['q'])(lambda x: x)", ("impl-odd", "q")),
    "an implementation that is no function": (None, "f.impl('impl-odd')(3)", ("impl-odd",)),
    "an implementation without a name": (None, "@f.impl\ndef _(x):\n    return x", (FILE,)),
    "an implementation named by a number": (None, "f.impl(3)(lambda x: x)", (FILE,)),
    "an op without inputs": ("PARAMS", "", ("no tensor",)),
    "an op named by a number": ("name=3, cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "an op named by a list": ("name=['f'], cases=kl.cases(shape=[(4, 4)])", "", (FILE,)),
    "two ops of a name": (None, "@kl.op\ndef f(x):\n    return x", ("two ops are named f",)),
}

# Unusual but allowed: every implementation is right, or the file is refused with a sentence.
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


# Name → how it is created, and words besides the file's name.
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
