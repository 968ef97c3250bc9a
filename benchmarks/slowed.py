"""Does `klab profile` name what slows a training loop, and what mending it gives? The five of slowed_mlp.py.

    python benchmarks/slowed.py OUT [--variant NAME]

Each variant runs as it is and mended, twice in turn and unprofiled; then `klab profile` looks at the slowed one,
unchanged and with nothing told. Right is a first finding of the variant's cause in the variant's line, with a saved
time per step within 30 % of what mending saved. Writes slowed.csv and slowed.md to OUT, and each profile's folder;
exit code 0 when all five are right.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(__file__).with_name("slowed_mlp.py")
NEAR = 0.30
# What each is called, and a piece of the line to blame; the line of tiny_batch is where its kernels are asked for.
EXPECTED = {
    "print_loss": ("wait", "loss.item()"),
    "tiny_batch": ("launch", ""),
    "unfused_gelu": ("fusion", "0.044715|torch.tanh"),
    "blocking_copy": ("copy", ".cpu()"),
    "starving_loader": ("loader", "next(loader)"),
}
STEPS = {"starving_loader": 30}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--variant", choices=EXPECTED, action="append")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    rows = []
    for variant in args.variant or EXPECTED:
        rows.append(compared(variant, args.out))
        print(json.dumps(rows[-1]), file=sys.stderr)
    write(args.out, rows)
    return 0 if all(row["right"] for row in rows) else 1


def compared(variant: str, out: Path) -> dict:
    words = [variant, "--steps", str(STEPS.get(variant, 90))]
    slowed, mended = [], []
    for _ in range(2):
        slowed.append(milliseconds(run([str(PROGRAM), *words])))
        mended.append(milliseconds(run([str(PROGRAM), *words, "--mended"])))
    folder = out / variant
    said = run(["-m", "kernellab", "profile", str(PROGRAM), "--out", str(folder), "--", *words])
    (out / f"{variant}.txt").write_text(said)
    finding = json.loads((folder / "profile.json").read_text())["findings"][0]
    before, after = statistics.mean(slowed), statistics.mean(mended)
    saved, told = before - after, finding["gain_us"] / 1e3
    kind, line = EXPECTED[variant]
    blamed = source(finding["line"])
    named = finding["kind"] == kind and any(piece in blamed for piece in line.split("|"))
    return {
        "variant": variant,
        "slowed_ms": before,
        "mended_ms": after,
        "saved_ms": saved,
        "told_ms": told,
        "off": told / saved - 1,
        "kind": finding["kind"],
        "line": finding["line"],
        "code": blamed,
        "title": finding["title"],
        "named": named,
        "right": named and abs(told / saved - 1) <= NEAR,
    }


def run(words: list[str]) -> str:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, env=env, timeout=240)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr[-2000:]}")
    return done.stdout


def milliseconds(said: str) -> float:
    return float(re.findall(r"([\d.]+) ms per step", said)[-1])


def source(line: int | None) -> str:
    lines = PROGRAM.read_text().splitlines()
    return lines[line - 1].strip() if line and line <= len(lines) else ""


def write(out: Path, rows: list[dict]) -> None:
    import torch

    with (out / "slowed.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    lines = [
        "# Five slowed training loops, and what `klab profile` says of each",
        "",
        f"machine: {device}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {torch.__version__}  ",
        "script: benchmarks/slowed.py",
        "",
        "| variant | slowed, ms | mended, ms | saved, ms | told, ms | off | line blamed | right |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {r['variant']} | {r['slowed_ms']:.3f} | {r['mended_ms']:.3f} | {r['saved_ms']:.3f} "
            f"| {r['told_ms']:.3f} | {100 * r['off']:+.0f} % | {r['line']}: `{r['code']}` "
            f"| {'yes' if r['right'] else 'no'} |"
            for r in rows
        ),
        "",
        "What each says first:",
        "",
        *(f"- {r['variant']}: {r['title']}" for r in rows),
        "",
        f"{sum(r['right'] for r in rows)} of {len(rows)} right.",
    ]
    (out / "slowed.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(main())
