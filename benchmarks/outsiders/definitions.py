"""Definitions out of a file that cannot be imported as a whole: a tutorial that runs when it is imported, a module of a
package whose other modules need more than is installed.

Only the statements that the wanted names depend on are executed, from the file as it is.
"""

import ast
import importlib.util
import sys
from pathlib import Path


def load_definitions(path, names, package=None, **provided):
    """A namespace with `names` as the file defines them. `provided` takes the place of what the file imports or makes.

    `package` is a module to resolve relative imports with.
    """
    path = Path(path)
    tree = ast.parse(path.read_text())
    module_name = f"outsider_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    if package:
        module.__package__ = package
    needed, kept = set(names), set()
    while True:
        before = len(kept)
        for number, statement in enumerate(tree.body):
            if number not in kept and _bound(statement) & needed:
                kept.add(number)
                needed |= _used(statement)
        if len(kept) == before:
            break
    vars(module).update(provided)
    for number in sorted(kept):
        statement = tree.body[number]
        if not _bound(statement) <= set(provided):
            exec(compile(ast.Module([statement], []), str(path), "exec"), vars(module))
        vars(module).update(provided)
    return module


def names_for_unsloth():
    """What Unsloth's kernel files import from the rest of the package."""
    import torch
    import triton
    from triton.language.extra import libdevice

    def settings(columns):
        """The block of a row, and the warps for it."""
        block = triton.next_power_of_2(columns)
        return block, 4 if block < 2048 else 8 if block < 8192 else 16 if block < 32768 else 32

    return dict(
        calculate_settings=settings,
        torch_gpu_device=torch.cuda.device,
        torch_device_stream=torch.cuda.current_stream,
        triton_tanh=libdevice.tanh,
        triton_cast=triton.language.cast,
        is_cdna=lambda: False,
        MAX_FUSED_SIZE=65536,
        DEVICE_COUNT=1,
    )


def _bound(statement):
    """The names that a statement at the top of a file binds."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.Expr):
        return set()
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _used(statement):
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
