"""Does `klab profile` find what slows a training loop, and predict what fixing it gains? The five of slowed_mlp.py.

    python benchmarks/slowed.py OUT [--variant NAME] [--pairs 3]

Each variant runs slowed and mended in turn, three times each, without a profiler and in one process. Then
`klab profile` profiles the slowed program without any hint. The answer is right if the first finding has the variant's
cause and line, and its gain per step is within 30 % of what mending saved. Writes slowed.csv, slowed.md and each
profile's folder to OUT. The exit code is 0 if all five are right.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path(__file__).with_name("slowed_mlp.py")
NEAR = 0.30
# The kind of the expected finding, and a part of its line; | separates alternatives. Any line counts for tiny_batch.
EXPECTED = {
    "print_loss": ("wait", "loss.item()"),
    "tiny_batch": ("launch", ""),
    "unfused_gelu": ("fusion", "0.044715|torch.tanh"),
    "blocking_copy": ("copy", ".cpu()"),
    "starving_loader": ("loader", "next(loader)"),
}
STEPS = {"starving_loader": 30}


# All runs without a profiler are in one process, so that processes make no difference.
DRIVER = """
import contextlib, gc, io, json, sys
import slowed_mlp, torch
pairs, variants, steps = json.loads(sys.argv[1])
for variant in variants:
    for turn in range(2 * pairs + 2):  # the first two warm up
        mended, output = turn % 2 == 1, io.StringIO()
        sys.argv = ["slowed_mlp.py", variant, "--steps", str(steps[variant]), *["--mended"] * mended]
        with contextlib.redirect_stdout(output):
            slowed_mlp.main()
        if turn > 1:
            print(json.dumps([variant, mended, float(output.getvalue().split()[-4])]), flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--variant", choices=EXPECTED, action="append")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each, slowed and mended")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    variants = args.variant or list(EXPECTED)
    times = time_variants(variants, args.pairs)
    print(json.dumps(times), file=sys.stderr)
    processes = {variant: start_profile(variant, args.out) for variant in variants}
    rows = []
    for variant, process in processes.items():
        process.wait()
        rows.append(compare(variant, times[variant], args.out))
        write(args.out, rows)  # after each: the next one may have failed
    print((args.out / "slowed.md").read_text())
    return 0 if all(row["right"] for row in rows) else 1


def steps(variant: str) -> int:
    return STEPS.get(variant, 90)


def time_variants(variants: list[str], pairs: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step, slowed and mended: the median of the runs."""
    request = json.dumps([pairs, variants, {variant: steps(variant) for variant in variants}])
    done = subprocess.run([sys.executable, "-c", DRIVER, request], capture_output=True, text=True, cwd=PROGRAM.parent)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        variant: {
            name: statistics.median(ms for other, is_mended, ms in runs if (other, is_mended) == (variant, mended))
            for name, mended in (("slowed", False), ("mended", True))
        }
        for variant in variants
    }


def start_profile(variant: str, out: Path) -> subprocess.Popen:
    """Starts `klab profile` and returns when the program has ended: its analysis may overlap with the next program."""
    words = ["-m", "kernellab", "profile", str(PROGRAM), "--out", str(out / variant)]
    words += ["--", variant, "--steps", str(steps(variant))]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (out / f"{variant}.txt").open("w") as file:
        process = subprocess.Popen([sys.executable, *words], stdout=file, stderr=subprocess.STDOUT, env=env)
    while process.poll() is None and not list((out / variant).glob("artifacts/*.collected")):
        time.sleep(0.1)
    return process


def compare(variant: str, times: dict[str, float], out: Path) -> dict:
    document = json.loads((out / variant / "profile.json").read_text())
    finding = document["findings"][0]
    before, after = times["slowed"], times["mended"]
    saved, predicted = before - after, finding["gain_us"] / 1e3
    kind, line = EXPECTED[variant]
    code = source(finding["line"])
    named = finding["kind"] == kind and any(part in code for part in line.split("|"))
    return {
        "variant": variant,
        "slowed_ms": before,
        "mended_ms": after,
        "saved_ms": saved,
        "told_ms": predicted,
        "off": predicted / saved - 1,
        "profiled_plain_ms": (document["summary"]["plain_step_us"] or 0.0) / 1e3,
        "kind": finding["kind"],
        "line": finding["line"],
        "code": code,
        "title": finding["title"],
        "named": named,
        "right": named and abs(predicted / saved - 1) <= NEAR,
    }


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
        "# Five slowed training loops, and what `klab profile` finds in each",
        "",
        f"machine: {device}  ",
        f"date: {time.strftime('%Y-%m-%d')}  ",
        f"versions: torch {torch.__version__}  ",
        "script: benchmarks/slowed.py",
        "",
        "| variant | slowed, ms | mended, ms | saved, ms | predicted, ms | off | line | right |",
        "|---|---|---|---|---|---|---|---|",
        *(
            f"| {r['variant']} | {r['slowed_ms']:.3f} | {r['mended_ms']:.3f} | {r['saved_ms']:.3f} "
            f"| {r['told_ms']:.3f} | {100 * r['off']:+.0f} % | {r['line']}: `{r['code']}` "
            f"| {'yes' if r['right'] else 'no'} |"
            for r in rows
        ),
        "",
        "The first finding of each:",
        "",
        *(f"- {r['variant']}: {r['title']}" for r in rows),
        "",
        f"{sum(r['right'] for r in rows)} of {len(rows)} right.",
    ]
    (out / "slowed.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
