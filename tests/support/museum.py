"""The exhibits of the museum of bugs, and what each has to be called with."""

import ast

from support.klab import HERE

MUSEUM = HERE / "museum"


EXHIBITS = {file.stem: file for file in sorted(MUSEUM.glob("*.py")) if file.name not in ("tour.py", "alone.py")}


CALLS = {
    "repeat": "twice",
    "stream": "on a side stream",
    "graph": "in a CUDA graph",
    "registered": "as a registered op",
    "surroundings": "beside large numbers",
}


LOST = {
    "form": "float32_comes_out",
    "special": "relu_swallows_nan",
    "unchanged": "input_as_scratch",
    "alias": "nothing_to_do_returns_input",
    "poison": "workspace_never_zeroed",
    "bands": "left_of_the_first",
    "compiled": "compiled_in_name_only",
}


def label(name, what):
    """A constant of an exhibit, read without running it."""
    for node in ast.parse(EXHIBITS[name].read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == what:
            return ast.literal_eval(node.value)
    raise AssertionError(f"{name} does not say {what}")
