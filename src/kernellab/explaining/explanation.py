"""Everything there is to say of one way, from a record: its roofline, its chain of operators, its findings.

What rests on a model alone, because nothing was timed, says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from kernellab.explaining.configurations import judged
from kernellab.explaining.rulebook import findings
from kernellab.explaining.rules.unfused_chain import chain
from kernellab.gpumodel.fusion import Fusion
from kernellab.gpumodel.subject import Subject, subject, subjects
from kernellab.gpumodel.time_model import main_kernel, prices
from kernellab.machinecode.kernel_origin import became


def explained(record: Mapping[str, Any], gpu_name: str | None = None) -> list[dict[str, Any]]:
    """One for each way and case that was timed or compiled, as plain data."""
    return [of(subject) for subject in subjects(record, gpu_name)]


def add_findings(record: dict[str, Any]) -> None:
    """Add `derived.findings` to each result of a record with its verdicts; empty where nothing was timed."""
    for result in record["results"]:
        derived = result["derived"]
        timed = derived["status"] == "ok" and derived["time"] is not None and derived["time"]["timer"] != "launch"
        derived["findings"] = [asdict(finding) for finding in findings(subject(record, result))] if timed else []


def of(subject: Subject) -> dict[str, Any]:
    subject = judged(subject)
    found = chain(subject)
    device = subject.device
    own = [k.name for k in subject.kernels]
    return {
        "op": subject.op,
        "impl": subject.impl,
        "kind": subject.kind,
        "case": dict(subject.case),
        "measured": subject.measured,
        "gpu": device.name if device else None,
        "copy_gbps": subject.gbps,
        "time_us": subject.time_us,
        "roofline": asdict(subject.limit) if subject.limit else None,
        "fusion": _fusion(found, subject.time_us) if found else None,
        "became": [
            {"family": family.name, "words": family.words, "kernels": count}
            for family, count in became([k["name"] for k in subject.launched], own)
        ],
        "kernels": [asdict(k) for k in subject.kernels],
        "predicted": _predicted(subject),
        "findings": [asdict(one) for one in findings(subject)],
    }


def _predicted(subject: Subject) -> dict[str, Any] | None:
    """What the model says of the way's kernels one after the other; of the dearest, each item's price."""
    found = main_kernel(subject)
    if found is None:
        return None
    kernel, dearest = found
    total = sum(one.time_us for k in subject.kernels if (one := prices(subject, k)) is not None)
    once = sum(k.once_loops for k in subject.kernels)
    items = {"dearest": dearest.dearest, "items_us": asdict(dearest)}
    return {"time_us": total, "kernel": kernel.name, **items, "loops_counted_once": once}


def _fusion(found: Fusion, time_us: float | None) -> dict[str, Any]:
    """`timed_gain`: of the chain as it was timed, over the fused kernel that is predicted."""
    timed = time_us / found.fused_us if time_us else None
    return {**asdict(found), "gain": found.gain, "timed_gain": timed, "kernels": found.kernels}
