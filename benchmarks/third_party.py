"""Profiles third-party code unchanged: tiny models of `transformers` with random weights.

    python benchmarks/third_party.py [--out DIR] [--json]

Needs the package `transformers`, which kernellab does not depend on; no weights are downloaded. Each program is a few
lines around the library's own code: a forward pass, training with an optimizer, text generation. Prints the first lines
that `klab profile` prints for each, and fails if one does not run or leaves no trace.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"

BERT_FORWARD = """
import torch
from transformers import BertConfig, BertModel

config = BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=4, intermediate_size=512)
model = BertModel(config).to("cuda" if torch.cuda.is_available() else "cpu").eval()
tokens = torch.randint(0, config.vocab_size, (8, 64), device=model.device)
with torch.no_grad():
    for _ in range(5):
        model(input_ids=tokens)
"""

LLAMA_TRAINING = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM

config = LlamaConfig(
    vocab_size=1000, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4
)
model = LlamaForCausalLM(config).to("cuda" if torch.cuda.is_available() else "cpu")
optimizer = torch.optim.AdamW(model.parameters())
tokens = torch.randint(0, config.vocab_size, (4, 64), device=model.device)
for _ in range(12):
    optimizer.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
"""

GPT2_GENERATION = """
import torch
from transformers import GPT2Config, GPT2LMHeadModel

config = GPT2Config(vocab_size=1000, n_embd=128, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).to("cuda" if torch.cuda.is_available() else "cpu").eval()
tokens = torch.randint(1, config.vocab_size, (2, 8), device=model.device)
model.generate(tokens, max_new_tokens=24, do_sample=False, pad_token_id=0)
"""

PROGRAMS = {"bert_forward": BERT_FORWARD, "llama_training": LLAMA_TRAINING, "gpt2_generation": GPT2_GENERATION}
_LINES = 5  # of a profile that are shown


def profile(name: str, source: str, folder: Path) -> tuple[int, str, dict]:
    """Profiles a program: its exit code, the output of the command, and the profile's document."""
    path = folder / f"{name}.py"
    path.write_text(source)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "kernellab", "profile", path.name, "--out", name]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    file = folder / name / "profile.json"
    return done.returncode, done.stdout or done.stderr, json.loads(file.read_text()) if file.exists() else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, metavar="DIR", help="keep programs, traces and answers there")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    summary = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = args.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor() as pool:  # times do not matter here
            profiles = pool.map(lambda program: profile(*program, folder), PROGRAMS.items())
        for name, (code, output, document) in zip(PROGRAMS, profiles, strict=True):
            ok = code == 0 and bool(document)
            summary[name] = {
                "ok": ok,
                "steps": document.get("summary", {}).get("steps"),
                "operators": len(document.get("operators", ())),
                "kernels": len(document.get("kernels", ())),
                "modules": len(document.get("modules", ())),
                "said": output.splitlines()[:_LINES],
            }
            if not args.json:
                print(f"── {name}: {'ok' if ok else f'failed, exit code {code}'} ──")
                print("\n".join(output.splitlines()[: _LINES if ok else None]))
    if args.json:
        print(json.dumps(summary, indent=1))
    sys.exit(not all(program["ok"] for program in summary.values()))


if __name__ == "__main__":
    main()
