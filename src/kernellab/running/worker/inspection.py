"""Captures and analyses the code that each implementation of an op compiles to, for one architecture.

There is one architecture per process, because an author's code may cache the properties of its device.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from kernellab.base.errors import UserError
from kernellab.base.functions import AnyFunction
from kernellab.base.json import JsonObject
from kernellab.base.paths import file_name
from kernellab.base.user_code import explain
from kernellab.build import cpp
from kernellab.build.cuda import NotCapturable
from kernellab.capture.inductor import GeneratedCode, generate_for_standin, generate_on_gpu, generate_source
from kernellab.capture.launch import Launch
from kernellab.capture.line_count import c_lines
from kernellab.capture.meta_inputs import meta_inputs
from kernellab.capture.op_file import write_op_file
from kernellab.capture.recorder import record_launches
from kernellab.capture.standin_cuda import replace_attribute
from kernellab.capture.standin_gpu import StandinGpu, standin_gpu, standin_product
from kernellab.checking.declared_case import INTERPRETER_LIMIT
from kernellab.codeanalysis.kernel_json import KernelJson, SourceJson
from kernellab.declaration.case import Case
from kernellab.declaration.case_request import CaseRequest
from kernellab.declaration.cost import CostFailed, cost_of_pass
from kernellab.declaration.inputs import make_inputs
from kernellab.declaration.op import Impl, Op
from kernellab.declaration.passes import NotDifferentiable, gradients, pass_of
from kernellab.machine.chips import DEFAULT_ARCH, chip
from kernellab.machine.gpus import same_product
from kernellab.machinecode.cubin import disassemble
from kernellab.record.battery_events import CodeAccount, CodeRead
from kernellab.running.protocol.events import LaunchCaptured
from kernellab.running.worker.captured_kernel import describe_launch, describe_refused_launch
from kernellab.running.worker.channel import Channel
from kernellab.running.worker.static_costs import count_static_costs
from kernellab.trials.choosing.small_cases import shrink_to

_WITHOUT_KERNELS = dict.fromkeys(("manual", "torch"), "calls PyTorch's own kernels and compiles none of its own")
_SMALL_ELEMENTS = 4096  # elements of the largest input, for code that must run on the CPU to be generated


class Inspector:
    """Inspects an op for one GPU: the product `gpu` if given, else architecture `arch`.

    The GPU of this machine is used if it matches, else a stand-in GPU. Without `gpu` and `arch` it is the GPU of this
    machine, or sm_90 where there is none. `cpu`: also inspect code for the CPU. `accounts`: also count the bytes that
    operators move and the lines of source, and analyse how a warp's accesses coalesce and conflict.
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
        present = _describe_present_gpu(device) if device.type == "cuda" else None
        self.is_present = present is not None and (
            same_product(present.name, gpu) if gpu else arch in ("", present.arch)
        )
        if present is not None and self.is_present:
            self.gpu = present
        else:
            self.gpu = standin_product(gpu) if gpu else standin_gpu(arch or DEFAULT_ARCH)

    def run(self, names: list[str], request: CaseRequest, passes: list[str]) -> None:
        for name in names:
            impl = self.op[name]
            if impl.kind.name == "cpp" and not self.cpu:
                continue
            with self.channel.running(None, "load"):  # where= and supports= are code of the op file
                cases = self.op.expand(request, "cpu" if impl.kind.name == "cpp" else "cuda")
            for case in cases:
                for pass_name in passes:
                    self._inspect(impl, case, pass_name)

    def _inspect(self, impl: Impl, case: Case, pass_name: str) -> None:
        began = time.perf_counter()
        account: CodeAccount | None = None
        with self.channel.running(impl.name, "inspect"):
            outcome = self._read_kernels(impl, case, pass_name)
        if self.accounts and pass_name == "forward" and outcome.status in ("ok", "none"):
            with self.channel.running(impl.name, "inspect"):
                account = self._account(impl, case, outcome.kernels)
        self.channel.send(
            CodeRead(
                op=self.op.name,
                impl=impl.name,
                kind=impl.kind.name,
                case=case.to_json(),
                arch=self.gpu.arch,
                gpu=self.gpu.name,
                pass_name=pass_name,
                status=outcome.status,
                reason=outcome.reason,
                kernels=outcome.kernels,
                seconds=round(time.perf_counter() - began, 3),
                account=account,
            )
        )

    def _read_kernels(self, impl: Impl, case: Case, pass_name: str) -> _Outcome:
        try:
            kernels = self._kernels(impl, case, pass_name)
        except NotDifferentiable as error:
            hint = "; --pass forward shows what it launches" if pass_name == "both" else ""
            return _Outcome("skipped", f"no backward pass: {error}{hint}")
        except (_OutsideDomain, NotCapturable) as error:
            return _Outcome("skipped", str(error))
        except Exception as error:
            return _Outcome("error", _explain(error))
        if not kernels:
            default = "launched no kernel of Triton or of kl.cuda.kernel: there is nothing to inspect"
            return _Outcome("none", _WITHOUT_KERNELS.get(impl.kind.name, default))
        return _Outcome("ok", "", kernels)

    def _account(self, impl: Impl, case: Case, kernels: Sequence[KernelJson]) -> CodeAccount:
        """The op's cost, the bytes that operators move and the lines of code. The kernels are compiled already."""
        with record_launches(self.gpu) as launches:
            counts = count_static_costs(impl, kernels, lambda: self._call(impl, case, "forward", launches))
        try:
            cost = cost_of_pass(self.op, "forward", meta_inputs(self.op, case), case)
        except CostFailed:  # cost= needs more than sizes
            cost = None
        return {"cost": cost, **counts}

    def _kernels(self, impl: Impl, case: Case, pass_name: str) -> list[KernelJson]:
        with record_launches(self.gpu):  # supports= may ask for the properties of the GPU, as wrappers do
            refusal = impl.refusal(case)
        if refusal is not None:
            raise _OutsideDomain(refusal)
        if impl.kind.name == "cpp":
            return self._cpp_kernels(impl, case, pass_name)
        if impl.kind.name in _WITHOUT_KERNELS:
            return []
        if impl.kind.name == "compile":
            return self._compiled_kernels(impl, case, pass_name)
        with record_launches(self.gpu, self._report_launch) as launches:
            self._call(impl, case, pass_name, launches)
        return [self._read_launch(impl, launch) for launch in launches]

    def _report_launch(self, launch: Launch) -> None:
        """Each launch shows that the worker is alive: the configurations of an autotuned kernel may take minutes."""
        number, count = launch.tuned or (0, 1)
        configuration = f", configuration {number + 1} of {count}" if launch.tuned else ""
        self.channel.send(LaunchCaptured(arch=self.gpu.arch, kernel=f"{launch.kernel}{configuration}"))

    def _call(self, impl: Impl, case: Case, pass_name: str, launches: list[Launch]) -> None:
        """Run a pass on meta tensors. For the backward pass, launches of the forward pass before it are dropped."""
        inputs = meta_inputs(self.op, case)
        pass_ = pass_of(pass_name)
        if pass_name == "forward":
            pass_.compute(self.op, impl, inputs, case)
            return
        results, leaves, _ = pass_.graph(self.op, impl, inputs, case, mutates=impl.mutates)
        if pass_name == "backward":
            launches.clear()
        upstream = [
            torch.empty(result.shape, dtype=result.dtype, device="meta") if result.is_floating_point() else None
            for result in results
        ]
        gradients(results, leaves, upstream)

    # Launches ------------------------------------------------------------------------------------------

    def _read_launch(self, impl: Impl, launch: Launch) -> KernelJson:
        """Analyse a launch and write its code into files."""
        if launch.refusal or launch.cubin is None:
            return describe_refused_launch(launch)
        with self.channel.running(None, "read"):  # a failure from here on is not blamed on the implementation
            files = self._write_launch(impl, launch, disassemble(launch.cubin))
            return describe_launch(launch, launch.cubin, self.gpu, files, with_accesses=self.accounts)

    def _write_launch(self, impl: Impl, launch: Launch, sass: str) -> dict[str, str]:
        texts: dict[str, str | bytes] = {**launch.code, "sass": sass}
        if launch.sources:
            suffix = "cu" if launch.kind == "cuda" else "py"
            texts[suffix] = launch.source_text
        return self._write_files(impl, f"{self.gpu.arch}-{_shorten(launch.kernel)}", texts)

    def _write_files(self, impl: Impl, name: str, texts: Mapping[str, str | bytes]) -> dict[str, str]:
        """Write texts, by suffix, into files of one name. A number is added where another case used the name."""
        artifacts = self.folder / "artifacts"
        first = stem = f"{file_name(self.op.name)}-{file_name(impl.name)}-{name}"
        number = 1
        while any((artifacts / f"{stem}.{suffix}").exists() for suffix in texts):
            number += 1
            stem = f"{first}-{number}"
        for suffix, text in texts.items():
            (artifacts / f"{stem}.{suffix}").write_bytes(text.encode() if isinstance(text, str) else text)
        return {suffix: f"artifacts/{stem}.{suffix}" for suffix in texts}

    # torch.compile -------------------------------------------------------------------------------------

    def _compiled_kernels(self, impl: Impl, case: Case, pass_name: str) -> list[KernelJson]:
        """The kernels that ran on the requested GPU if it is present, else those generated for it and for this CPU."""
        options = self.op.call_options(case)
        kernels: list[KernelJson] = []
        if self.is_present:
            generated = generate_on_gpu(*self._call_on_gpu(impl, case, pass_name), options)
        else:
            if pass_name != "forward":
                raise UserError("torch.compile's backward pass can be captured only on a GPU: use --pass forward here")
            if self.cpu:
                kernels.append(self._generated_cpp(impl, case))
            tensors = list(meta_inputs(self.op, case).values())
            generated = generate_for_standin(impl.fn, tensors, options, self.gpu, self._report_launch)
        module = self._write_files(impl, f"{self.gpu.arch}-generated", {"py": generated.source})["py"]
        export, refusal = self._export(impl, case, generated)
        for launch in generated.launches:
            kernel = self._read_launch(impl, launch)
            kernel["files"] |= {"generated": module, **export}
            kernel["not_exported"] = refusal
            kernels.append(kernel)
        return kernels

    def _export(self, impl: Impl, case: Case, generated: GeneratedCode) -> tuple[dict[str, str], str]:
        """The path of an op file with the generated kernels, or the reason why there is none."""
        try:
            text = write_op_file(self.op, case, generated, ran=self.is_present, interpreter_limit=INTERPRETER_LIMIT)
        except UserError as error:
            return {}, error.message
        return {"export": self._write_files(impl, f"{self.gpu.arch}-export", {"py": text})["py"]}, ""

    def _call_on_gpu(self, impl: Impl, case: Case, pass_name: str) -> tuple[AnyFunction, list[object]]:
        """A function to call on the GPU, and its arguments."""
        pass_ = pass_of(pass_name)
        inputs = pass_.inputs(self.op, case, 0, self.device)
        if pass_name == "forward":
            return impl.fn, [inputs[name] for name in self.op.args]
        return lambda **options: pass_.compute(self.op, impl, inputs, case, mutates=impl.mutates), []

    def _generated_cpp(self, impl: Impl, case: Case) -> KernelJson:
        """The C++ that inductor generates, for a small case that runs quickly: only the sizes in the code differ."""
        small = shrink_to(self.op, case, _SMALL_ELEMENTS).with_(device="cpu")
        inputs = make_inputs(self.op, small, 0, "cpu")
        with torch.no_grad():
            text = generate_source(impl.fn, list(inputs.values()), self.op.call_options(small))
        files = self._write_files(impl, "cpu-generated", {"py": text})  # the C++ is a string in Python code
        return _cpu_kernel("C++ by inductor", {"case": small.label}, [], {"cpp": files["py"]})

    # C++ -----------------------------------------------------------------------------------------------

    def _cpp_kernels(self, impl: Impl, case: Case, pass_name: str) -> list[KernelJson]:
        calls: dict[tuple[Path, str, tuple[str, ...]], None] = {}

        def intercept(function: cpp.CppFunction) -> None:
            calls.setdefault((function.path, function.name, function.flags))

        with replace_attribute(cpp, "interceptor", intercept):
            pass_of(pass_name).compute(self.op, impl, meta_inputs(self.op, case), case, mutates=impl.mutates)
        return [self._read_assembly(impl, *call) for call in calls]

    def _read_assembly(self, impl: Impl, path: Path, name: str, flags: tuple[str, ...]) -> KernelJson:
        text = path.read_text()
        files = self._write_files(impl, name, {"s": cpp.assembly(path, flags), "cpp": text})
        source: SourceJson = {"name": path.name, "file": str(path), "first_line": 1, "lines": c_lines(text)}
        return _cpu_kernel(name, {"flags": [*cpp.FLAGS, *flags]}, [source], files)


@dataclass(frozen=True)
class _Outcome:
    """The kernels of an implementation, or why there are none."""

    status: str
    reason: str
    kernels: list[KernelJson] = field(default_factory=list)


class _OutsideDomain(Exception):
    """A case that the implementation's `supports=` refuses."""


def _cpu_kernel(name: str, config: JsonObject, sources: list[SourceJson], files: dict[str, str]) -> KernelJson:
    return {
        "kind": "cpp",
        "name": name,
        "config": config,
        "sources": sources,
        "files": files,
        "facts": None,
        "occupancy": None,
        "parameters": [],
        "refusal": "",
        "tuned": None,
    }


def _describe_present_gpu(device: torch.device) -> StandinGpu:
    properties = torch.cuda.get_device_properties(device)
    return StandinGpu(
        properties.name,
        chip(f"{properties.major}.{properties.minor}"),
        properties.multi_processor_count,
        properties.L2_cache_size,
        properties.total_memory,
    )


def _explain(error: Exception) -> str:
    message = explain(error)
    if "meta tensor" in str(error) and not isinstance(error, UserError):
        return f"reads the values of a tensor, which are not available without a GPU: {message}"
    return message


def _shorten(kernel: str) -> str:
    """`softmax_warp<float, 4, 8, 32>` as part of a file's name."""
    return "-".join(filter(None, "".join(c if c.isalnum() or c == "_" else " " for c in kernel).split()))[:80]
