"""The exhibits of the museum of bugs, and what must catch each."""

import ast

from support.klab import HERE

MUSEUM = HERE / "museum"

EXHIBITS = {
    file.stem: file
    for file in sorted(MUSEUM.glob("*.py"))
    if file.name not in ("tour.py", "alone.py") and not file.name.startswith("test_")
}

# CAUGHT_BY of an exhibit that a call variant catches → the variant's name in a trial.
CALLS = {
    "repeat": "twice",
    "stream": "on a side stream",
    "graph": "in a CUDA graph",
    "registered": "as a registered op",
    "surroundings": "beside large numbers",
}

# A guard → an exhibit that passes without it.
MISSED_WITHOUT = {
    "form": "float32_comes_out",
    "special": "relu_swallows_nan",
    "unchanged": "input_as_scratch",
    "alias": "nothing_to_do_returns_input",
    "poison": "workspace_never_zeroed",
    "bands": "left_of_the_first",
    "compiled": "compiled_in_name_only",
}


def label(exhibit, name):
    """A constant of an exhibit's file, read without running it."""
    for node in ast.parse(EXHIBITS[exhibit].read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{exhibit} does not define {name}")


def is_caught(exhibit, failures):
    """Whether failures of an exhibit include one of the kind that its label names; a guard's may be of any kind."""
    caught_by = label(exhibit, "CAUGHT_BY")
    kind = CALLS.get(caught_by, caught_by)
    varied = any(kind in failure["varied"] for failure in failures)
    # By chance, two calls may agree where those of another trial do not.
    varies = caught_by == "repeat" and any(failure["reason"].startswith("not repeatable") for failure in failures)
    return bool(failures) and (caught_by in MISSED_WITHOUT or varied or varies)
