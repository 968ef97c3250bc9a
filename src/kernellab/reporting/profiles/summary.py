"""A profile for the terminal: what to do about it in the first ten lines, then tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kernellab.analysis.cpu_time import CpuDocument
from kernellab.analysis.document import ProfileDocument, SummaryDocument
from kernellab.analysis.idle import IdleDocument
from kernellab.analysis.range_tree import RangeDocument
from kernellab.analysis.tables import KernelDocument, ModuleDocument, OperatorDocument
from kernellab.analysis.waits import WaitDocument
from kernellab.base.errors import UserError, nearest
from kernellab.base.text import printable, share_text
from kernellab.findings.document import ProfileFinding
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.layout import Layout

# The values of `--sort`, each with what it sorts operators by.
SORTS: dict[str, Callable[[OperatorDocument], float]] = {
    "gpu": lambda row: row["self_gpu_us"],
    "gpu_total": lambda row: row["total_gpu_us"],
    "cpu": lambda row: row["self_cpu_us"],
    "cpu_total": lambda row: row["total_cpu_us"],
    "count": lambda row: row["count"],
}
_FIRST_LINES = 10
_MORE_FINDINGS = 3
_BUSY = 0.9  # a GPU this busy needs no reason for being idle
_MOST_GAPS = 5


def lines(document: ProfileDocument, *, sort: str | None = None, rows: int = 10, name_width: int = 80) -> list[str]:
    """`sort` is one of SORTS; the default is GPU time, or CPU time if no GPU was used."""
    on_gpu = document["summary"]["on_gpu"]
    order = sort or ("gpu" if on_gpu else "cpu")
    if order not in SORTS:
        raise UserError(f"a profile is not sorted by {order}: {nearest(order, SORTS)}")
    layout = Layout(name_width)
    text = layout.sentences(_answer(document, layout))
    tables = [
        _operators(document, SORTS[order], rows, layout),
        _kernels(document, rows, layout),
        _kernels_of_operators(document, rows, layout),
        _modules(document, rows, layout),
        _ranges(document, rows, layout),
        _waits(document, rows, layout),
        _gaps(document, rows, layout),
        _fusion(document, rows, layout),
        _memory(document, layout),
    ]
    for table in tables:
        if table:
            text += ["", *table]
    return text


# The answer --------------------------------------------------------------------------------------------


def _answer(document: ProfileDocument, layout: Layout) -> list[str]:
    first, *others = document["findings"]
    # With a GPU, a typical profiler overhead is subtracted, and a note says so.
    scale = "" if document["summary"]["on_gpu"] or document["summary"]["plain_step_us"] else " as profiled"
    sentences = [_finding(first, scale)]
    if first["do"]:
        sentences.append(f"  {first['do']}")
    sentences += [f"Then: {_finding(finding, scale)}" for finding in others[:_MORE_FINDINGS]]
    sentences.append(_steps(document["summary"], document["idle"]))
    sentences += _largest_operator(document, layout)
    notes = document["notes"][: max(_FIRST_LINES - len(sentences), 1)]
    return [*sentences, *(f"Note: {printable(note)}" for note in notes)]


def _finding(finding: ProfileFinding, scale: str) -> str:
    sentence = printable(finding["title"])
    if finding["gain_us"]:
        before = words.duration(finding["step_us"])
        after = words.duration(max(finding["step_without_us"], 0.0))
        whole = "a step" if finding["evidence"].get("stepping", True) else "it all"
        share = words.percent(finding["gain_share"])
        sentence += f". Without it {whole} takes about {after} instead of {before}{scale} ({share} less)"
    return sentence + "."


def _steps(summary: SummaryDocument, idle: IdleDocument) -> str:
    steps = f"{summary['steps']} steps of {words.duration(summary['step_us'])}"
    if not summary["steps_marked"]:
        steps = f"{words.duration(summary['step_us'])} in all" if summary["step_us"] else "Nothing took any time"
    if summary["plain_step_us"]:
        steps += f" as profiled, {words.duration(summary['plain_step_us'])} without the profiler"
    device = f" {summary['devices'][0]}" if summary["devices"] else ""
    if summary["gpu_rows_missing"]:
        return f"{steps}; the rows of the GPU{printable(device)} are missing from the trace."
    if not summary["on_gpu"]:
        return (
            f"{steps}; no activity of the GPU{printable(device)} was recorded."
            if device
            else f"{steps}; no GPU was used."
        )
    if idle["busy_fraction"] is None:
        return f"{steps}."
    busy = summary["plain_busy_fraction"] or idle["busy_fraction"]
    causes = [cause for cause in idle["causes"] if cause["cause"] != "gpu"][:1]
    reason = f"; idle mostly because {causes[0]['words']}" if causes and busy < _BUSY else ""
    return f"{steps}; the GPU{printable(device)} is busy {words.percent(busy)} of that{reason}."


def _largest_operator(document: ProfileDocument, layout: Layout) -> list[str]:
    """The operator with the most time of its own, and the kernel it ran."""
    if not document["operators"]:
        return []
    if not document["summary"]["on_gpu"]:
        return _cpu_shares(document["cpu"], layout)
    if document["summary"]["gpu_rows_missing"]:
        return []
    whole_us = sum(row["self_gpu_us"] for row in document["operators"])
    first = max(document["operators"], key=SORTS["gpu"])
    if not first["self_gpu_us"]:
        return []
    sentence = (
        f"Most GPU time: {printable(first['name'], layout.name)}, {words.percent(first['self_gpu_us'] / whole_us)}"
    )
    own = [kernel for kernel in first["kernels"] if not kernel["through"]]
    if own:
        sentence += f", as {printable(own[0]['name'], layout.name)} ({own[0]['family']})"
    return [sentence + "."]


def _cpu_shares(cpu: CpuDocument | None, layout: Layout) -> list[str]:
    """The operators' share of the CPU's time, and the operator that takes most of it."""
    if cpu is None or not cpu["operators_us"]:
        return []
    dearest, whole_us = cpu["dearest"], max(cpu["whole_us"], 1e-3)
    share = cpu["operators_us"] / whole_us
    sentence = f"Operators take {share_text(share)} of the CPU's time"
    if cpu["python_us"]:
        sentence += f", Python {words.percent(cpu['python_us'] / whole_us)}"
    if cpu["compiling_us"]:
        sentence += f", compiling {words.percent(cpu['compiling_us'] / whole_us)}"
    if not cpu["python_us"] and share + cpu["compiling_us"] / whole_us < _BUSY:
        sentence += ", the rest was not recorded"
    part = words.percent(dearest["operator_us"] / cpu["operators_us"])
    return [f"{sentence}; most of it {printable(dearest['operator'], layout.name)}, {part} of the operators' time."]


# Tables ------------------------------------------------------------------------------------------------


def _operators(
    document: ProfileDocument, order: Callable[[OperatorDocument], float], rows: int, layout: Layout
) -> list[str]:
    operators = sorted(document["operators"], key=order, reverse=True)
    on_gpu = document["summary"]["on_gpu"]
    head = ["operator", "calls", *(["self GPU", "GPU"] if on_gpu else []), "self CPU", "CPU"]
    body = []
    for row in operators[:rows]:
        gpu_us = [row["self_gpu_us"], row["total_gpu_us"]] if on_gpu else []
        times_us = [*gpu_us, row["self_cpu_us"], row["total_cpu_us"]]
        body.append([row["name"], str(row["count"]), *map(words.duration, times_us)])
    return _table("Operators", head, body, layout, len(operators))


def _kernels(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    kernels = document["kernels"]
    body = [
        [row["name"], str(row["count"]), words.duration(row["gpu_us"]), words.duration(row["mean_us"]),
         words.percent(row["share"]), row["family"], _launching_operators(row)]
        for row in kernels[:rows]
    ]  # fmt: skip
    return _table("Kernels", ["kernel", "runs", "GPU", "each", "share", "family", "for"], body, layout, len(kernels))


def _launching_operators(kernel: KernelDocument) -> str:
    first, *more = kernel["operators"]
    return f"{first['name']} and {len(more)} more" if more else str(first["name"])


def _kernels_of_operators(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    """Operators by the shapes of their inputs, each with the kernel it ran, and through which operators."""
    paths = {
        kernel["through"].split(" → ")[-1]: f"{operator['name']} → {kernel['through']}"
        for operator in document["operators"]
        for kernel in operator["kernels"]
        if kernel["through"]
    }
    kernels = {kernel["name"]: kernel for kernel in document["kernels"]}
    body = []
    for operator in sorted(document["operators"], key=SORTS["gpu"], reverse=True):
        path = paths.get(operator["name"], operator["name"])
        for inputs in operator["shapes"]:
            if inputs["kernels"]:
                times_us = {name: runs * kernels[name]["mean_us"] for name, runs in inputs["kernels"].items()}
                name = max(times_us, key=times_us.__getitem__)
                shapes = ", ".join(_shape(shape) for shape in inputs["shapes"] if shape and isinstance(shape, list))
                each = words.duration(inputs["time_us"] / inputs["count"])
                body.append([path, shapes, name, kernels[name]["family"], each])
    head = ["operator", "on", "kernel", "family", "each"]
    return _table("Kernels of the operators", head, body[:rows], layout, len(body))


def _shape(shape: Sequence[object]) -> str:
    """`8192×8192`; for a list of tensors, how many."""
    return "×".join(map(str, shape)) if all(isinstance(size, int) for size in shape) else f"{len(shape)} tensors"


def _modules(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    modules, on_gpu = document["modules"], document["summary"]["on_gpu"]
    body = [
        [" / ".join(row["path"]), str(row["count"]), *map(words.duration, _module_times_us(row, on_gpu=on_gpu))]
        for row in modules[:rows]
    ]
    return _table("Modules", ["module", "calls", "total", "self", "backward"], body, layout, len(modules))


def _module_times_us(row: ModuleDocument, *, on_gpu: bool) -> tuple[float, float, float]:
    if on_gpu:
        return row["total_gpu_us"], row["self_gpu_us"], row["backward_gpu_us"]
    return row["total_cpu_us"], row["self_cpu_us"], row["backward_cpu_us"]


def _ranges(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    """The longest ranges, in the order of the tree. A range is never longer than its parent, so each has its parent."""
    ranges, on_gpu = document["ranges"], document["summary"]["on_gpu"]
    if len(ranges) <= 2 * rows:  # a tree that lacks a branch or two is hard to read
        rows = len(ranges)

    def time_us(row: RangeDocument) -> float:
        return row["gpu_us"] if on_gpu else row["cpu_us"]

    longest = sorted(range(len(ranges)), key=lambda at: time_us(ranges[at]), reverse=True)[:rows]
    body = []
    for at in sorted(longest):
        row = ranges[at]
        times_us = [row["cpu_us"], *([row["gpu_us"]] if on_gpu else [])]
        body.append(["  " * row["depth"] + row["name"], f"{row['count']:g}", *map(words.duration, times_us)])
    head = ["range", "times", "CPU", *(["GPU"] if on_gpu else [])]
    averaged = any(row["steps"] > 1 for row in ranges)
    return _table("Ranges, average of a step" if averaged else "Ranges, in total", head, body, layout, len(ranges))


def _waits(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    waits = document["sync_points"]
    body = [
        [_call_place(row), str(row["count"]), words.duration(row["wait_us"]), words.duration(row["idle_us"])]
        for row in waits[:rows]
    ]
    head = ["call", "times", "waits", "GPU idle after"]
    return _table("Where the CPU waits for the GPU", head, body, layout, len(waits))


def _call_place(row: WaitDocument) -> str:
    call = row["code"] or row["call"]
    return f"{row['file']}:{row['line']} {call}" if row["file"] else str(call)


def _gaps(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    gaps = document["idle"]["gaps"][: min(rows, _MOST_GAPS)]
    body = [[row["cpu"], row["cause"], words.duration(row["idle_us"]), words.duration(row["begin_us"])] for row in gaps]
    return _table("The GPU's longest idle gaps", ["CPU activity", "cause", "idle", "from"], body, layout, len(body))


def _fusion(document: ProfileDocument, rows: int, layout: Layout) -> list[str]:
    body = [
        [" → ".join(name.removeprefix("aten::") for name in row["operators"]), f"{row['per_step']:g}",
         words.memory(row["moved_bytes"]), words.memory(row["fewest_bytes"]), words.duration(row["gain_us"])]
        for row in document["fusion"][:rows]
    ]  # fmt: skip
    head = ["chain", "per step", "moves", "fewest", "GPU time saved"]
    return _table("What could be fused", head, body, layout, len(document["fusion"]))


def _memory(document: ProfileDocument, layout: Layout) -> list[str]:
    memory = document["memory"]
    if not memory:
        return []
    where = f"GPU {memory['device']}" if memory["device"] >= 0 else "the host"
    body = [[category["name"], words.memory(category["bytes"])] for category in memory["categories"]]
    title = f"Memory: {words.memory(memory['peak_bytes'])} at its peak on {where}"
    return _table(title, ["used by", "bytes"], body, layout, len(body))


def _table(title: str, head: Sequence[str], body: Sequence[Sequence[str]], layout: Layout, rows: int) -> list[str]:
    """`rows`: how many there are, of which `body` shows the first."""
    return [*layout.sentences([title]), *layout.table(head, body, total=rows)] if body else []
