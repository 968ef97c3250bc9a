"""Triton's driver for the stand-in GPU: it has a target, a device and a stream, and loads nothing."""

from __future__ import annotations

from types import ModuleType

import torch
from triton.backends.compiler import GPUTarget

from kernellab.base.functions import AnyFunction
from kernellab.capture.standin_gpu import StandinGpu
from kernellab.machinecode.cubin import read_cubin


class StandinDriver:
    """`launcher_cls`: what Triton creates for each compiled kernel, and calls to launch it; None where none runs."""

    def __init__(self, gpu: StandinGpu, launcher_cls: type | None = None) -> None:
        self._gpu = gpu
        self.utils = _Utils(gpu)
        self.launcher_cls = launcher_cls

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self._gpu.capability_number, 32)

    def get_current_device(self) -> int:
        return self._gpu.index

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return self._gpu.chip.capability

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cuda", self._gpu.index)

    def get_device_interface(self) -> ModuleType:
        return torch.cuda

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_benchmarker(self) -> AnyFunction:
        return lambda call, **settings: call()

    def get_empty_cache_for_benchmark(self) -> torch.Tensor:
        return torch.empty(1, dtype=torch.int32, device=self.get_active_torch_device())

    def clear_cache(self, cache: object) -> None:
        pass

    def assemble_tensormap_to_arg(self, tensormaps: object, args: object) -> object:
        return args


class _Utils:
    def __init__(self, gpu: StandinGpu) -> None:
        self._gpu = gpu

    def get_device_properties(self, device: int) -> dict[str, int]:
        chip = self._gpu.chip
        return {
            "max_shared_mem": chip.shared_per_block_bytes,
            "max_num_regs": chip.registers_per_sm,
            "multiprocessor_count": self._gpu.sms,
            "warpSize": 32,
            "sm_clock_rate": 0,  # not known
            "mem_clock_rate": 0,
            "mem_bus_width": 0,
        }

    def load_binary(self, name: str, code: bytes, shared: int, device: int) -> tuple[object, object, int, int, int]:
        """Module, function, registers, spills, largest block. Some authors compute their grid from the registers."""
        kernel = read_cubin(code).kernels[0]
        return object(), object(), kernel.registers, kernel.stack_bytes // 4, self._gpu.chip.threads_per_block
