"""Describes a captured launch as JSON for the record, with the kernel facts of its cubin and its occupancy.

`running.worker.inspection` decides which launches are captured, and writes their code into files.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from kernellab.capture.launch import Launch, Parameter
from kernellab.capture.line_count import c_lines, python_lines
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.codeanalysis.bank_conflicts import transaction_ratio
from kernellab.codeanalysis.coalescing import sector_ratio
from kernellab.codeanalysis.facts import KernelFacts, facts_from_cubin
from kernellab.codeanalysis.kernel_json import KernelJson, OccupancyJson, ParameterJson, SourceJson
from kernellab.codeanalysis.matrix_products import find_matrix_products
from kernellab.gpumodel.occupancy import Occupancy, grid_refusal, occupancy
from kernellab.machinecode.cubin import read_cubin
from kernellab.machinecode.ptx import PtxFunction, parse_ptx


def describe_refused_launch(launch: Launch) -> KernelJson:
    """A launch without code: `refusal` says why it was not compiled."""
    return {
        "kind": launch.kind,
        "name": launch.kernel,
        "symbol": launch.symbol,
        "arch": launch.arch,
        "gpu": launch.gpu,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "shared_bytes": launch.shared_bytes,
        "config": dict(launch.config),
        "parameters": [_describe_parameter(parameter) for parameter in launch.parameters],
        "sources": _describe_sources(launch),
        "build_s": launch.build_s,
        "tuned": list(launch.tuned) if launch.tuned else None,
        "refusal": launch.refusal,
        "times": launch.times,
        "facts": None,
        "occupancy": None,
        "files": {},
    }


def describe_launch(
    launch: Launch, cubin: bytes, gpu: StandinGpu, files: Mapping[str, str], *, with_accesses: bool
) -> KernelJson:
    """A launch with the facts of its cubin. `with_accesses`: also how a warp's accesses coalesce and conflict."""
    (facts,) = facts_from_cubin(cubin, str(launch.code.get("ptx", "")), launch.symbol)
    shared_bytes = (facts.shared_bytes or 0) + launch.shared_bytes
    resident = _compute_occupancy(launch, facts, shared_bytes, gpu)
    refusal, remedy = grid_refusal(launch.grid, launch.block)
    source = _find_ptx(launch)
    kernel = describe_refused_launch(launch)
    kernel["refusal"] = f"{refusal}: {remedy}" if refusal else ""
    kernel["facts"] = facts.to_json()
    kernel["sectors"] = kernel["conflicts"] = None
    if with_accesses and source is not None:
        arguments = _arguments(launch)
        kernel["sectors"] = sector_ratio(source, arguments, launch.block, _l1_share_bytes(launch, resident, gpu.sms))
        kernel["conflicts"] = transaction_ratio(source, arguments, launch.block)
    kernel["products"] = [product.to_json() for product in find_matrix_products(source)] if source else []
    kernel["shared_total_bytes"] = shared_bytes
    kernel["occupancy"] = _describe_occupancy(resident)
    kernel["cubin_arch"] = read_cubin(cubin).arch
    kernel["files"] = dict(files)
    return kernel


def _describe_parameter(parameter: Parameter) -> ParameterJson:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "value": parameter.value,
        "special": parameter.special,
        "bytes": parameter.bytes,
    }


def _describe_sources(launch: Launch) -> list[SourceJson]:
    count = c_lines if launch.kind == "cuda" else python_lines
    return [
        {
            "name": source.name,
            "file": source.file,
            "first_line": source.first_line,
            "text_line": line,
            "lines": count(source.text),
        }
        for source, line in zip(launch.sources, launch.source_lines, strict=True)
    ]


def _compute_occupancy(launch: Launch, facts: KernelFacts, shared_bytes: int, gpu: StandinGpu) -> Occupancy:
    return occupancy(
        gpu.chip,
        launch.threads,
        facts.registers or 0,
        shared_bytes,
        barriers=facts.barriers or 1,
        # Triton launches the block size it compiled for; an author's own launch may use another.
        max_threads=math.prod(facts.threads) if facts.threads and launch.kind == "cuda" else None,
        exact=facts.threads_required,
    )


def _describe_occupancy(resident: Occupancy) -> OccupancyJson:
    return {
        "blocks_per_sm": resident.blocks_per_sm,
        "warps_per_sm": resident.warps_per_sm,
        "fraction": resident.fraction,
        "limiter": resident.limiter,
        "limiters": resident.limiters,
        "limits": resident.limits,
        "refusal": resident.refusal,
        "remedy": resident.remedy,
        "warps_per_block": resident.warps_per_block,
        "shared_split_bytes": resident.shared_split_bytes,
        "l1_bytes": resident.l1_bytes,
    }


def _l1_share_bytes(launch: Launch, resident: Occupancy, sms: int) -> float:
    """The bytes of L1 per warp, with as many blocks on an SM as fit and as the grid provides."""
    blocks = max(1, min(resident.blocks_per_sm, -(-launch.blocks // sms)))
    return resident.l1_bytes / (blocks * resident.warps_per_block)


def _find_ptx(launch: Launch) -> PtxFunction | None:
    """The kernel in its PTX, where there is PTX."""
    kernels = parse_ptx(str(launch.code.get("ptx", ""))).kernels
    return next((kernel for kernel in kernels if kernel.name == launch.symbol), None)


def _arguments(launch: Launch) -> list[int | None]:
    """The arguments that are passed to the kernel, None for a pointer."""
    # Triton compiles in an argument that equals 1, and does not pass it.
    passed = [parameter for parameter in launch.parameters if not parameter.special.startswith("equal to")]
    return [None if parameter.bytes is not None else _to_integer(parameter.value) for parameter in passed]


def _to_integer(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0
