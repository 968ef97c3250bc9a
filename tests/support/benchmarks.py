"""The scripts of benchmarks/, loaded as modules."""

import importlib.util
import sys

from support.klab import HERE

BENCHMARKS = HERE.parent / "benchmarks"


def load_script(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look for it
    before = list(sys.path)
    sys.path.insert(0, str(BENCHMARKS))  # as Python has it for a script: one may import another
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path[:] = before  # traces look for sources along this path
    return module
