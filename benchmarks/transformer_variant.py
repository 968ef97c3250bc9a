"""One variant of benchmarks/transformer.py, in a process of its own: it builds the model, and trains when it is asked.

    python benchmarks/transformer_variant.py VARIANT       # KERNELLAB_WORKLOAD has its workload

Commands come on standard input, answers go to standard output, a JSON line each.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

CONTROLS = ("rounded-1", "rounded-2")
STEPS = 50  # of training, for the losses
SEED = 16

Document = dict[str, Any]


@dataclass(frozen=True)
class Workload:
    """The model and what it is trained on."""

    device: str
    dtype: str = "bfloat16"
    hidden: int = 2048
    intermediate: int = 8192
    layers: int = 16
    heads: int = 32
    key_heads: int = 8
    vocabulary: int = 128256
    batch: int = 4
    positions: int = 2048

    @classmethod
    def tiny(cls, device: str) -> Workload:
        """Small enough for a CPU: to try the program, not to measure."""
        return cls(device, "float32", 64, 128, 2, 4, 2, 512, 2, 32)

    @property
    def label(self) -> str:
        return (
            f"hidden {self.hidden}, {self.layers} layers, {self.heads} heads ({self.key_heads} for keys), "
            f"vocabulary {self.vocabulary}, {self.batch} × {self.positions} tokens, {self.dtype}"
        )


def work(variant: str, workload: Workload) -> None:
    """Answer commands on standard input. What libraries print goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    trainer = None
    for line in sys.stdin:
        command = json.loads(line)
        try:
            trainer = trainer or Trainer(variant, workload)
            answer = trainer.train(command["steps"]) if command["do"] == "train" else trainer.time(command["steps"])
        except Exception as error:
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}
        print(json.dumps(answer), file=answers, flush=True)


class Trainer:
    """The model of a variant, its optimizer and its batches."""

    def __init__(self, variant: str, workload: Workload) -> None:
        import torch

        self.torch, self.workload = torch, workload
        self.device = torch.device(workload.device)
        self.patched = ""
        if variant == "liger":
            from liger_kernel.transformers import apply_liger_kernel_to_llama

            apply_liger_kernel_to_llama()
        self.model = self._make_model()
        self.parameter_count = sum(parameter.numel() for parameter in self.model.parameters())
        self.weights_sum = float(sum(parameter.double().sum() for parameter in self.model.parameters()))
        if variant in CONTROLS:
            self._round_weights(CONTROLS.index(variant))
        if variant.startswith("patch"):
            import kernellab

            self.patched = str(kernellab.patch(self.model)).splitlines()[0]
        fused = self.device.type == "cuda"
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=fused)
        self.call = torch.compile(self.model) if variant.endswith("compile") else self.model
        self.steps_done = 0

    def _make_model(self) -> Any:
        from transformers import LlamaConfig, LlamaForCausalLM

        torch, workload = self.torch, self.workload
        config = LlamaConfig(
            vocab_size=workload.vocabulary,
            hidden_size=workload.hidden,
            intermediate_size=workload.intermediate,
            num_hidden_layers=workload.layers,
            num_attention_heads=workload.heads,
            num_key_value_heads=workload.key_heads,
            max_position_embeddings=workload.positions,
            rms_norm_eps=1e-5,
            tie_word_embeddings=True,
            use_cache=False,
        )
        torch.manual_seed(SEED)
        with self._default_dtype(), self.device:
            model = LlamaForCausalLM(config)
        return model.to(self.device).train()

    @contextlib.contextmanager
    def _default_dtype(self) -> Iterator[None]:
        before = self.torch.get_default_dtype()
        self.torch.set_default_dtype(getattr(self.torch, self.workload.dtype))
        try:
            yield
        finally:
            self.torch.set_default_dtype(before)

    def _round_weights(self, number: int) -> None:
        """Move one weight in six to the next number, up or down. In units of that distance this is a variance of 1/6,
        that of the difference of two roundings."""
        torch = self.torch
        generator = torch.Generator(self.device).manual_seed(SEED + 1 + number)
        with torch.no_grad():
            for parameter in self.model.parameters():
                faces = torch.randint(0, 12, parameter.shape, generator=generator, device=self.device)
                moves = (faces == 0).double() - (faces == 1).double()
                # By between half of the distance and all of it, which rounds to the next number.
                parameter.copy_(parameter.double() * (1 + 0.505 * torch.finfo(parameter.dtype).eps * moves))

    def _batch(self, number: int) -> Any:
        """Tokens as unevenly frequent as words, so that there is something to learn."""
        torch, workload = self.torch, self.workload
        generator = torch.Generator().manual_seed(1000 * SEED + number)
        uniform = torch.rand(workload.batch, workload.positions, generator=generator, dtype=torch.float64)
        tokens = (torch.exp(uniform * torch.tensor(workload.vocabulary, dtype=torch.float64).log()) - 1).long()
        return tokens.clamp_(0, workload.vocabulary - 1).to(self.device)

    def _step(self, batch: Any) -> Any:
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.call(input_ids=batch, labels=batch).loss
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def train(self, steps: int) -> Document:
        losses = []
        began = time.perf_counter()
        first_s = 0.0
        for number in range(steps):
            losses.append(float(self._step(self._batch(number))))
            if number == 0:
                first_s = time.perf_counter() - began
            if number == 2 and self.device.type == "cuda":
                self.torch.cuda.reset_peak_memory_stats(self.device)  # without what compiling needed
        cuda = self.device.type == "cuda"
        peak_bytes = self.torch.cuda.max_memory_allocated(self.device) if cuda else None
        self._free()
        return {
            "losses": losses,
            "weights_sum": self.weights_sum,
            "parameters": self.parameter_count,
            "first_step_s": first_s,
            "peak_bytes": peak_bytes,
            "patched": self.patched,
            "device_name": self.torch.cuda.get_device_name(self.device) if cuda else "cpu",
            "versions": _versions(),
        }

    def time(self, steps: int) -> Document:
        batch = self._batch(STEPS)
        self._step(batch)
        samples = []
        for _ in range(steps):
            self._synchronize()
            began = time.perf_counter()
            self._step(batch)
            self._synchronize()
            samples.append(time.perf_counter() - began)
        self._free()
        return {"samples_s": samples}

    def _free(self) -> None:
        """Leave the memory to the other variants; the step to warm up takes it again."""
        if self.device.type == "cuda":
            self.torch.cuda.empty_cache()

    def _synchronize(self) -> None:
        if self.device.type == "cuda":
            self.torch.cuda.synchronize(self.device)


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for name in ("torch", "triton", "transformers", "liger-kernel"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


if __name__ == "__main__":
    work(sys.argv[1], Workload(**json.loads(os.environ["KERNELLAB_WORKLOAD"])))
