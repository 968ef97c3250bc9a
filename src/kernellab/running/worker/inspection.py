"""Inside a worker: what each way of an op compiles to for one architecture, read and written to files.

One architecture per process: an author's code may remember what it asked of its device.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

import torch

from kernellab.base.errors import UserError
from kernellab.base.paths import file_name
from kernellab.base.user_code import explain
from kernellab.build import cpp
from kernellab.build.cuda import OutOfSight
from kernellab.capture.inductor import Generated, generated, generated_here, written
from kernellab.capture.launches import Launch
from kernellab.capture.line_count import c_lines, python_lines
from kernellab.capture.op_file import exported
from kernellab.capture.recorder import capturing
from kernellab.capture.standin_gpu import StandinGpu, standin_gpu, standin_product
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.codeanalysis.banks import conflicts
from kernellab.codeanalysis.coalescing import spread
from kernellab.codeanalysis.facts import facts
from kernellab.codeanalysis.products import products
from kernellab.declaration.case import Case, CaseRequest
from kernellab.declaration.inputs import make
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, gradients, pass_of
from kernellab.gpumodel.occupancy import Occupancy, grid_refusal, occupancy
from kernellab.machine.chips import chip
from kernellab.machine.gpus import same_product
from kernellab.machinecode.cubin import disassemble, read_cubin
from kernellab.machinecode.ptx import Entry as PtxEntry
from kernellab.machinecode.ptx import parse_ptx
from kernellab.record.battery_events import CodeAccount, CodeRead
from kernellab.running.protocol.events import LaunchCaptured
from kernellab.running.worker.channel import Channel
from kernellab.running.worker.static_costs import account, cost_of
from kernellab.trials.small_cases import standin

_UNARMED = {
    "manual": "calls PyTorch's own kernels: nothing of its own is compiled",
    "torch": "calls PyTorch's own kernels: nothing of its own is compiled",
}
_SMALL = 4096  # elements of the largest input, for what must run on the CPU to be seen
Entry = dict[str, Any]


class Inspector:
    """`arch` empty is the GPU present, or sm_90 where there is none; `gpu` is the product of it that is asked for.

    `cpu`: code for the CPU is read too.
    `accounts`: the bytes each way's operators move, how its accesses lie and its lines of source are told besides.
    """

    def __init__(
        self,
        channel: Channel,
        op: Op,
        device: torch.device,
        arch: str,
        gpu: str,
        folder: Path,
        *,
        cpu: bool,
        accounts: bool = False,
    ) -> None:
        self.channel, self.op, self.device, self.folder, self.cpu = channel, op, device, folder, cpu
        self.accounts = accounts
        here = _present(device) if device.type == "cuda" else None
        self.present = here is not None and (same_product(here.name, gpu) if gpu else arch in ("", here.arch))
        if here is not None and self.present:
            self.gpu = here
        else:
            self.gpu = standin_product(gpu) if gpu else standin_gpu(arch or "sm_90")

    def run(self, names: list[str], request: CaseRequest, passes: list[str]) -> None:
        for name in names:
            impl = self.op[name]
            if impl.kind.name == "cpp" and not self.cpu:
                continue
            with self.channel.running(None, "load"):  # where= and supports= are the file's own
                cases = self.op.expand(request, "cpu" if impl.kind.name == "cpp" else "cuda")
            for case in cases:
                for of in passes:
                    self._inspect(impl, case, of)

    def _inspect(self, impl: Impl, case: Case, of: str) -> None:
        began = time.perf_counter()
        found: Entry = {"status": "ok", "reason": "", "kernels": []}
        account: CodeAccount | None = None
        with self.channel.running(impl.name, "inspect"):
            try:
                found["kernels"] = self._kernels(impl, case, of)
                if not found["kernels"]:
                    found |= {"status": "none", "reason": self._why_none(impl)}
            except NotDifferentiable as no:
                instead = "; --pass forward shows what it launches" if of == "both" else ""
                found |= {"status": "skipped", "reason": f"no backward pass: {no}{instead}"}
            except (_Outside, OutOfSight) as outside:
                found |= {"status": "skipped", "reason": str(outside)}
            except Exception as error:
                found |= {"status": "error", "reason": _told(error)}
        if self.accounts and of == "forward" and found["status"] in ("ok", "none"):
            with self.channel.running(impl.name, "inspect"):
                account = self._account(impl, case, found["kernels"])
        self.channel.send(
            CodeRead(
                op=self.op.name,
                impl=impl.name,
                kind=impl.kind.name,
                case=case.to_json(),
                arch=self.gpu.arch,
                gpu=self.gpu.name,
                pass_name=of,
                seconds=round(time.perf_counter() - began, 3),
                account=account,
                **found,
            )
        )

    def _account(self, impl: Impl, case: Case, kernels: list[Entry]) -> CodeAccount:
        """Its cost, its operators' traffic and its lines; the kernels are compiled by now."""
        inputs = {name: _meta(self.op, name, case) for name in self.op.args}
        with capturing(self.gpu) as launches:
            found = account(impl, kernels, lambda: self._call(impl, case, "forward", launches))
        return cast(CodeAccount, {"cost": cost_of(self.op, case, inputs), **found})

    def _why_none(self, impl: Impl) -> str:
        return _UNARMED.get(impl.kind.name, "launched no Triton kernel and none of kl.cuda.kernel: nothing to read")

    def _kernels(self, impl: Impl, case: Case, of: str) -> list[Entry]:
        refusal = impl.refusal(case)
        if refusal is not None:
            raise _Outside(refusal)
        if impl.kind.name == "cpp":
            return self._cpp(impl, case, of)
        if impl.kind.name in _UNARMED:
            return []
        if impl.kind.name == "compile":
            return self._compiled(impl, case, of)
        return [self._read(impl, launch) for launch in self._captured(impl, case, of)]

    def _captured(self, impl: Impl, case: Case, of: str) -> list[Launch]:
        with capturing(self.gpu, self._heard) as launches:
            self._call(impl, case, of, launches)
        return launches

    def _heard(self, launch: Launch) -> None:
        """Each launch is a sign of life: an autotuned kernel may take minutes in all."""
        number, count = launch.tuned or (0, 1)
        which = f", configuration {number + 1} of {count}" if launch.tuned else ""
        self.channel.send(LaunchCaptured(arch=self.gpu.arch, kernel=f"{launch.kernel}{which}"))

    def _call(self, impl: Impl, case: Case, of: str, launches: list[Launch]) -> None:
        """The pass on meta tensors. What the forward pass launches before a backward one is not the backward's."""
        inputs = {name: _meta(self.op, name, case) for name in self.op.args}
        if of == "forward":
            pass_of(of).compute(self.op, impl, inputs, case)
            return
        results, leaves, _ = pass_of(of).graph(self.op, impl, inputs, case)
        if of == "backward":
            launches.clear()
        above = [torch.empty(r.shape, dtype=r.dtype, device="meta") if r.is_floating_point() else None for r in results]
        gradients(results, leaves, above)

    # Reading -------------------------------------------------------------------------------------------

    def _read(self, impl: Impl, launch: Launch) -> Entry:
        """A launch with the facts of its binary; its code goes into files."""
        entry = {"name": launch.kernel, **launch.to_json()}
        entry.pop("kernel")
        count = c_lines if launch.kind == "cuda" else python_lines
        entry["sources"] = [
            {**{k: v for k, v in vars(source).items() if k != "text"}, "lines": count(source.text)}
            for source in launch.sources
        ]
        if launch.refusal:
            return {**entry, "facts": None, "occupancy": None, "files": {}}
        cubin = launch.code["cubin"]
        assert isinstance(cubin, bytes)
        with self.channel.running(None, "read"):  # not the way's doing any more
            sass = disassemble(cubin)
            told = facts(cubin, str(launch.code.get("ptx", "")), launch.symbol)[0]
        shared = (told.shared_bytes or 0) + launch.shared_bytes
        fits = occupancy(
            self.gpu.chip,
            launch.threads,
            told.registers or 0,
            shared,
            barriers=told.barriers or 1,
            # Triton launches what it compiled; whoever launches by hand may not.
            max_threads=math.prod(told.threads) if told.threads and launch.kind == "cuda" else None,
            exact=told.threads_required,
        )
        misshapen, fold = grid_refusal(launch.grid, launch.block)
        entry |= {
            "refusal": f"{misshapen}: {fold}" if misshapen else "",
            "facts": asdict(told),
            "sectors": _sectors(launch, _l1_share(launch, fits, self.gpu.sms)) if self.accounts else None,
            "conflicts": _conflicts(launch) if self.accounts else None,
            "products": [asdict(one) for one in products(code[0])] if (code := _entry(launch)) else [],
            "shared_total_bytes": shared,
            "occupancy": asdict(fits),
            "cubin_arch": read_cubin(cubin).arch,
            "files": self._write(impl, launch, sass),
        }
        return entry

    def _write(self, impl: Impl, launch: Launch, sass: str) -> dict[str, str]:
        texts: dict[str, str | bytes] = {**launch.code, "sass": sass}
        if launch.sources:
            ending = "cu" if launch.kind == "cuda" else "py"
            texts[ending] = "\n\n".join(source.text.strip("\n") for source in launch.sources) + "\n"
        return self._files(impl, f"{self.gpu.arch}-{_short(launch.kernel)}", texts)

    def _files(self, impl: Impl, what: str, texts: Mapping[str, str | bytes]) -> dict[str, str]:
        """Texts by their endings, in files of one name; another case or configuration gets a number."""
        artifacts = self.folder / "artifacts"
        first = stem = f"{file_name(self.op.name)}-{file_name(impl.name)}-{what}"
        number = 1
        while any((artifacts / f"{stem}.{ending}").exists() for ending in texts):
            number += 1
            stem = f"{first}-{number}"
        for ending, text in texts.items():
            (artifacts / f"{stem}.{ending}").write_bytes(text.encode() if isinstance(text, str) else text)
        return {ending: f"artifacts/{stem}.{ending}" for ending in texts}

    # torch.compile -------------------------------------------------------------------------------------

    def _compiled(self, impl: Impl, case: Case, of: str) -> list[Entry]:
        """On the GPU asked for, what ran there; otherwise what would be written for it, and what is for this CPU."""
        options = self.op.call_options(case)
        if self.present:
            found = generated_here(*self._on_gpu(impl, case, of), options)
            entries: list[Entry] = []
        else:
            if of != "forward":
                raise UserError(
                    "torch.compile's backward pass can be followed on a GPU only: --pass forward works here"
                )
            entries = [self._for_cpu(impl, case)] if self.cpu else []
            tensors = [_meta(self.op, name, case) for name in self.op.args]
            found = generated(impl.fn, tensors, options, self.gpu, self._heard)
        whole = self._files(impl, f"{self.gpu.arch}-generated", {"py": found.source})["py"]
        file, refusal = self._export(impl, case, found)
        for launch in found.launches:
            entries.append(self._read(impl, launch))
            entries[-1]["files"] |= {"generated": whole, **file}
            entries[-1]["not_exported"] = refusal
        return entries

    def _export(self, impl: Impl, case: Case, found: Generated) -> tuple[dict[str, str], str]:
        """An op file of the generated kernels, or why there is none."""
        try:
            text = exported(self.op, case, found, ran=self.present, interpreted=INTERPRETER_LIMIT)
        except UserError as error:
            return {}, error.message
        return {"export": self._files(impl, f"{self.gpu.arch}-export", {"py": text})["py"]}, ""

    def _on_gpu(self, impl: Impl, case: Case, of: str) -> tuple[Any, list[Any]]:
        made = pass_of(of).inputs(self.op, case, 0, self.device)
        if of == "forward":
            return impl.fn, [made[name] for name in self.op.args]
        return lambda **options: pass_of(of).compute(self.op, impl, made, case), []

    def _for_cpu(self, impl: Impl, case: Case) -> Entry:
        """C++, written at a size that runs in no time: the code is the same but for its sizes."""
        small = standin(self.op, case, _SMALL).with_(device="cpu")
        inputs = make(self.op, small, 0, "cpu")
        with torch.no_grad():
            text = written(impl.fn, list(inputs.values()), self.op.call_options(small))
        files = self._files(impl, "cpu-generated", {"py": text})  # C++ as a text in Python
        return _on_cpu("C++ by inductor", {"case": small.label}, [], {"cpp": files["py"]})

    # For the CPU ---------------------------------------------------------------------------------------

    def _cpp(self, impl: Impl, case: Case, of: str) -> list[Entry]:
        called: dict[tuple[Path, str, tuple[str, ...]], None] = {}
        before = cpp.interceptor
        cpp.interceptor = lambda f: called.setdefault((f.path, f.name, f.flags))
        try:
            inputs = {name: _meta(self.op, name, case) for name in self.op.args}
            pass_of(of).compute(self.op, impl, inputs, case)
        finally:
            cpp.interceptor = before
        return [self._assembly(impl, *one) for one in called]

    def _assembly(self, impl: Impl, path: Path, name: str, flags: tuple[str, ...]) -> Entry:
        files = self._files(impl, name, {"s": cpp.assembly(path, flags), "cpp": path.read_text()})
        source = {"name": path.name, "file": str(path), "first_line": 1, "lines": c_lines(path.read_text())}
        return _on_cpu(name, {"flags": [*cpp.FLAGS, *flags]}, [source], files)


def _on_cpu(name: str, config: dict[str, Any], sources: list[Entry], files: dict[str, str]) -> Entry:
    nothing: Entry = {"facts": None, "occupancy": None, "parameters": [], "refusal": "", "tuned": None}
    return {"kind": "cpp", "name": name, "config": config, "sources": sources, "files": files, **nothing}


def _l1_share(launch: Launch, fits: Occupancy, sms: int) -> float:
    """The bytes of L1 for each warp on an SM, with as many as fit and the grid has."""
    blocks = max(1, min(fits.blocks_per_sm, -(-launch.blocks // sms)))
    return fits.l1_bytes / (blocks * fits.warps_per_block)


def _sectors(launch: Launch, l1_share_bytes: float) -> float | None:
    """How far a warp's accesses are spread; None where the code does not tell."""
    kernels = _entry(launch)
    return spread(kernels[0], _arguments(launch), launch.block, l1_share_bytes) if kernels else None


def _conflicts(launch: Launch) -> float | None:
    """How often a warp's accesses to shared memory meet in a bank; None where the code does not tell."""
    kernels = _entry(launch)
    return conflicts(kernels[0], _arguments(launch), launch.block) if kernels else None


def _arguments(launch: Launch) -> list[int | None]:
    """As they are passed, None for a pointer."""
    # Triton compiles an argument that is 1 in, and passes it no more.
    passed = [p for p in launch.parameters if not p.special.startswith("equal to")]
    return [None if p.bytes is not None else _integer(p.value) for p in passed]


def _entry(launch: Launch) -> list[PtxEntry]:
    """The kernel in its PTX, where there is one."""
    return [entry for entry in parse_ptx(str(launch.code.get("ptx", ""))).kernels if entry.name == launch.symbol]


def _integer(text: str) -> int:
    return int(text) if text.lstrip("-").isdigit() else 0


def _present(device: torch.device) -> StandinGpu:
    """The GPU that is there, to answer for itself."""
    told = torch.cuda.get_device_properties(device)
    known = chip(f"{told.major}.{told.minor}")
    return StandinGpu(told.name, known, told.multi_processor_count, told.L2_cache_size, told.total_memory)


class _Outside(Exception):
    """A case the way does not take."""


def _meta(op: Op, name: str, case: Case) -> torch.Tensor | None:
    arg = op.args[name]
    if arg.optional and not case.options.get(name, False):
        return None
    dtype = torch.int64 if arg.is_index else getattr(torch, case.dtype)
    return torch.empty(op.sizes(arg, case), dtype=dtype, device="meta")


def _told(error: Exception) -> str:
    said = explain(error)
    if isinstance(error, UserError):
        return said
    if "meta tensor" in str(error):
        return f"looks at values, which are not there without a GPU: {said}"
    return said


def _short(kernel: str) -> str:
    """`softmax_warp<float, 4, 8, 32>` as part of a file's name."""
    return "-".join(filter(None, "".join(c if c.isalnum() or c == "_" else " " for c in kernel).split()))[:80]
