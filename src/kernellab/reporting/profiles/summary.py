"""A profile in the terminal: what to do about it in the first ten lines, tables after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kernellab.base.errors import UserError, nearest
from kernellab.base.text import share_text, shown
from kernellab.reporting.text import numbers as words
from kernellab.reporting.text.fitting import Fit

Document = Mapping[str, Any]
Row = Mapping[str, Any]

# What `--sort` may say, and the column it means.
SORTS = {
    "gpu": "self_gpu_us",
    "gpu_total": "total_gpu_us",
    "cpu": "self_cpu_us",
    "cpu_total": "total_cpu_us",
    "count": "count",
}
_OTHERS = 3
_BUSY = 0.9
_WAITS = 5


def lines(document: Document, *, sort: str | None = None, rows: int = 10, name_width: int = 80) -> list[str]:
    """`sort` is one of SORTS; GPU time, or CPU time where no GPU was seen, unless it says otherwise."""
    on_gpu = document["summary"]["on_gpu"]
    chosen = sort or ("gpu" if on_gpu else "cpu")
    if chosen not in SORTS:
        raise UserError(f"a profile is not sorted by {chosen}: {nearest(chosen, SORTS)}")
    fit = Fit(name_width)
    told = fit.sentences(_answer(document, fit))
    parts = [
        _operators(document, SORTS[chosen], rows, fit),
        _kernels(document, rows, fit),
        _became(document, rows, fit),
        _modules(document, rows, fit),
        _ranges(document, rows, fit),
        _waits(document, rows, fit),
        _gaps(document, rows, fit),
        _fusion(document, rows, fit),
        _memory(document, fit),
    ]
    for part in parts:
        if part:
            told += ["", *part]
    return told


def _answer(document: Document, fit: Fit) -> list[str]:
    first, *others = document["findings"]
    # Beside a GPU rows are charged the usual, and a note says so.
    scale = "" if document["summary"]["on_gpu"] or document["summary"]["plain_step_us"] else " as profiled"
    told = [_finding(first, scale)]
    if first["do"]:
        told.append(f"  {first['do']}")
    told += [f"Then: {_finding(one, scale)}" for one in others[:_OTHERS]]
    told.append(_steps(document["summary"], document["idle"]))
    told += _most(document, fit)
    told += [f"Note: {shown(note)}" for note in document["notes"][: max(10 - len(told), 1)]]
    return told


def _finding(one: Row, scale: str) -> str:
    said = shown(one["title"])
    if one["gain_us"]:
        took, left = words.duration(one["step_us"]), words.duration(max(one["step_without_us"], 0.0))
        what = "a step" if one["evidence"].get("stepping", True) else "it all"
        less = words.percent(one["gain_share"])
        said += f". Without it {what} takes about {left} instead of {took}{scale} ({less} less)"
    return said + "."


def _steps(summary: Row, idle: Row) -> str:
    many = f"{summary['steps']} steps of {words.duration(summary['step_us'])}"
    if not summary["steps_marked"]:
        many = f"{words.duration(summary['step_us'])} in all" if summary["step_us"] else "Nothing took any time"
    if summary["plain_step_us"]:
        many += f" as profiled, {words.duration(summary['plain_step_us'])} without the profiler"
    on = f" {summary['devices'][0]}" if summary["devices"] else ""
    if summary["gpu_rows_missing"]:
        return f"{many}; rows of the GPU{shown(on)} are missing."
    if not summary["on_gpu"]:
        return f"{many}; nothing was recorded of the GPU{shown(on)}." if on else f"{many}; no GPU was seen."
    if idle["busy_fraction"] is None:
        return f"{many}."
    busy = summary["plain_busy_fraction"] or idle["busy_fraction"]
    causes = [one for one in idle["causes"] if one["cause"] != "gpu"][:1]
    why = f"; idle mostly because {causes[0]['words']}" if causes and busy < _BUSY else ""
    return f"{many}; the GPU{shown(on)} is busy {words.percent(busy)} of that{why}."


def _most(document: Document, fit: Fit) -> list[str]:
    """The operator with most time of its own, and what it became."""
    if not document["operators"]:
        return []
    if not document["summary"]["on_gpu"]:
        return _of_the_cpu(document["cpu"], fit)
    if document["summary"]["gpu_rows_missing"]:
        return []
    whole = sum(row["self_gpu_us"] for row in document["operators"])
    first = max(document["operators"], key=lambda row: float(row["self_gpu_us"]))
    if not first["self_gpu_us"]:
        return []
    said = f"Most GPU time: {shown(first['name'], fit.name)}, {words.percent(first['self_gpu_us'] / whole)}"
    own = [kernel for kernel in first["kernels"] if not kernel["through"]]
    if own:
        said += f", as {shown(own[0]['name'], fit.name)} ({own[0]['family']})"
    return [said + "."]


def _of_the_cpu(cpu: Row, fit: Fit) -> list[str]:
    """What operators have of the CPU's time, and which of them most."""
    if not cpu["operators_us"]:
        return []
    dearest, whole = cpu["dearest"], max(cpu["whole_us"], 1e-3)
    share = cpu["operators_us"] / whole
    said = f"Operators have {share_text(share)} of the CPU's time"
    if cpu["python_us"]:
        said += f", Python {words.percent(cpu['python_us'] / whole)}"
    if cpu["compiling_us"]:
        said += f", compiling {words.percent(cpu['compiling_us'] / whole)}"
    if not cpu["python_us"] and share + cpu["compiling_us"] / whole < _BUSY:
        said += ", the rest was not recorded"
    part = words.percent(dearest["operator_us"] / cpu["operators_us"])
    return [f"{said}; most of theirs: {shown(dearest['operator'], fit.name)}, {part}."]


def _operators(document: Document, key: str, rows: int, fit: Fit) -> list[str]:
    on_gpu = document["summary"]["on_gpu"]
    found = sorted(document["operators"], key=lambda row: -float(row[key]))
    columns = [("self CPU", "self_cpu_us"), ("CPU", "total_cpu_us")]
    if on_gpu:
        columns = [("self GPU", "self_gpu_us"), ("GPU", "total_gpu_us"), *columns]
    head = ["operator", "calls", *(title for title, _ in columns)]
    body = [[r["name"], str(r["count"]), *(words.duration(r[k]) for _, k in columns)] for r in found[:rows]]
    return _table("Operators", head, body, fit, len(found))


def _kernels(document: Document, rows: int, fit: Fit) -> list[str]:
    found = document["kernels"]
    body = [
        [r["name"], str(r["count"]), words.duration(r["gpu_us"]), words.duration(r["mean_us"]),
         words.percent(r["share"]), r["family"], _started(r)]
        for r in found[:rows]
    ]  # fmt: skip
    return _table("Kernels", ["kernel", "runs", "GPU", "each", "share", "family", "for"], body, fit, len(found))


def _became(document: Document, rows: int, fit: Fit) -> list[str]:
    """Operators by the shapes they were given, each with the kernel it led to, and through which operators."""
    around = {
        kernel["through"].split(" → ")[-1]: f"{one['name']} → {kernel['through']}"
        for one in document["operators"]
        for kernel in one["kernels"]
        if kernel["through"]
    }
    known = {one["name"]: one for one in document["kernels"]}
    found = []
    for operator in sorted(document["operators"], key=lambda row: -float(row["self_gpu_us"])):
        path = around.get(operator["name"], operator["name"])
        for given in operator["shapes"]:
            if given["kernels"]:
                times = {name: runs * known[name]["mean_us"] for name, runs in given["kernels"].items()}
                name = max(times, key=times.__getitem__)
                shapes = ", ".join(_shape(one) for one in given["shapes"] if one and isinstance(one, list))
                each = words.duration(given["time_us"] / given["count"])
                found.append([path, shapes, name, known[name]["family"], each])
    return _table(
        "What operators became", ["operator", "on", "kernel", "family", "each"], found[:rows], fit, len(found)
    )


def _shape(of: Sequence[Any]) -> str:
    """`8192×8192`; of a list of tensors, how many."""
    return "×".join(map(str, of)) if all(isinstance(size, int) for size in of) else f"{len(of)} tensors"


def _started(row: Row) -> str:
    first, *more = row["operators"]
    return f"{first['name']} and {len(more)} more" if more else str(first["name"])


def _modules(document: Document, rows: int, fit: Fit) -> list[str]:
    found = document["modules"]
    keys = ("total_gpu_us", "self_gpu_us", "backward_gpu_us")
    if not document["summary"]["on_gpu"]:
        keys = ("total_cpu_us", "self_cpu_us", "backward_cpu_us")
    body = [[" / ".join(r["path"]), str(r["count"]), *(words.duration(r[key]) for key in keys)] for r in found[:rows]]
    return _table("Modules", ["module", "calls", "total", "self", "backward"], body, fit, len(found))


def _ranges(document: Document, rows: int, fit: Fit) -> list[str]:
    """The dearest, in the tree's order: what is around a range is no cheaper, so that none lacks its own."""
    every, by = document["ranges"], "gpu_us" if document["summary"]["on_gpu"] else "cpu_us"
    if len(every) <= 2 * rows:  # a tree that lacks a branch or two is hard to read
        rows = len(every)
    dearest = sorted(sorted(range(len(every)), key=lambda at: -float(every[at][by]))[:rows])
    columns = [("CPU", "cpu_us"), *([("GPU", "gpu_us")] if document["summary"]["on_gpu"] else [])]
    body = [
        ["  " * r["depth"] + r["name"], f"{r['count']:g}", *(words.duration(r[key]) for _, key in columns)]
        for r in (every[at] for at in dearest)
    ]
    head = ["range", "times", *(title for title, _ in columns)]
    averaged = any(r["steps"] > 1 for r in every)
    return _table("Ranges, a step on average" if averaged else "Ranges, all together", head, body, fit, len(every))


def _waits(document: Document, rows: int, fit: Fit) -> list[str]:
    found = document["sync_points"]
    body = [
        [_where(r), str(r["count"]), words.duration(r["wait_us"]), words.duration(r["idle_us"])] for r in found[:rows]
    ]
    return _table(
        "Where the CPU waits for the GPU", ["call", "times", "waits", "GPU idle after"], body, fit, len(found)
    )


def _where(row: Row) -> str:
    call = row["code"] or row["call"]
    return f"{row['file']}:{row['line']} {call}" if row["file"] else str(call)


def _gaps(document: Document, rows: int, fit: Fit) -> list[str]:
    found = document["idle"]["gaps"][: min(rows, _WAITS)]
    body = [[r["cpu"], r["cause"], words.duration(r["idle_us"]), words.duration(r["begin_us"])] for r in found]
    return _table("The GPU's longest idle gaps", ["the CPU was at", "cause", "idle", "from"], body, fit, len(body))


def _fusion(document: Document, rows: int, fit: Fit) -> list[str]:
    body = [
        [" → ".join(n.removeprefix("aten::") for n in r["operators"]), f"{r['per_step']:g}",
         words.memory(r["moved_bytes"]), words.memory(r["fewest_bytes"]), words.duration(r["gain_us"])]
        for r in document["fusion"][:rows]
    ]  # fmt: skip
    head = ["chain", "a step", "moves", "fewest", "GPU time saved"]
    return _table("What could be fused", head, body, fit, len(document["fusion"]))


def _memory(document: Document, fit: Fit) -> list[str]:
    memory = document["memory"]
    if not memory:
        return []
    where = f"GPU {memory['device']}" if memory["device"] >= 0 else "the host"
    body = [[one["name"], words.memory(one["bytes"])] for one in memory["categories"]]
    title = f"Memory: {words.memory(memory['peak_bytes'])} at its peak on {where}"
    return _table(title, ["held by", "bytes"], body, fit, len(body))


def _table(title: str, head: Sequence[str], body: Sequence[Sequence[str]], fit: Fit, of: int) -> list[str]:
    return [*fit.sentences([title]), *fit.table(head, body, of=of)] if body else []
