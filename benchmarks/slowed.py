"""Does `klab profile` name what slows a training loop, and what mending it gives? The five of slowed_mlp.py.

    python benchmarks/slowed.py OUT [--variant NAME] [--pairs 3]

Each variant runs as it is and mended, in turn and unprofiled, three times in one process; then `klab profile` looks at
the slowed one, unchanged and with nothing told. Right is a first finding of the variant's cause in the variant's line,
with a saved time per step within 30 % of what mending saved. Writes slowed.csv and slowed.md to OUT, and each profile's
folder; exit code 0 when all five are right.
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
# What each is called, and a piece of the line to blame; the line of tiny_batch is where its kernels are asked for.
EXPECTED = {
    "print_loss": ("wait", "loss.item()"),
    "tiny_batch": ("launch", ""),
    "unfused_gelu": ("fusion", "0.044715|torch.tanh"),
    "blocking_copy": ("copy", ".cpu()"),
    "starving_loader": ("loader", "next(loader)"),
}
STEPS = {"starving_loader": 30}


# All runs without a profiler, in one process: what is compared should not differ by the process it ran in.
DRIVER = """
import contextlib, gc, io, json, sys
import slowed_mlp, torch
pairs, variants, steps = json.loads(sys.argv[1])
for variant in variants:
    for turn in range(2 * pairs + 2):  # the first two warm up
        mended, said = turn % 2 == 1, io.StringIO()
        sys.argv = ["slowed_mlp.py", variant, "--steps", str(steps[variant]), *["--mended"] * mended]
        with contextlib.redirect_stdout(said):
            slowed_mlp.main()
        if turn > 1:
            print(json.dumps([variant, mended, float(said.getvalue().split()[-4])]), flush=True)
        gc.collect()
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT")
    parser.add_argument("--variant", choices=EXPECTED, action="append")
    parser.add_argument("--pairs", type=int, default=3, help="runs of each, as it is and mended")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    variants = args.variant or list(EXPECTED)
    times = plain(variants, args.pairs)
    print(json.dumps(times), file=sys.stderr)
    answers = {variant: profiled(variant, args.out) for variant in variants}
    rows = []
    for variant, answer in answers.items():
        answer.wait()
        rows.append(compared(variant, times[variant], args.out))
        write(args.out, rows)  # now: the next one may have failed
    print((args.out / "slowed.md").read_text())
    return 0 if all(row["right"] for row in rows) else 1


def steps(variant: str) -> int:
    return STEPS.get(variant, 90)


def plain(variants: list[str], pairs: int) -> dict[str, dict[str, float]]:
    """Milliseconds of a step, as it is and mended: the median of the runs."""
    asked = json.dumps([pairs, variants, {variant: steps(variant) for variant in variants}])
    done = subprocess.run([sys.executable, "-c", DRIVER, asked], capture_output=True, text=True, cwd=PROGRAM.parent)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        variant: {
            name: statistics.median(ms for one, is_mended, ms in runs if (one, is_mended) == (variant, mended))
            for name, mended in (("slowed", False), ("mended", True))
        }
        for variant in variants
    }


def profiled(variant: str, out: Path) -> subprocess.Popen:
    """Begun, and the program ended: what is left, the answer, may be worked out beside the next."""
    words = ["-m", "kernellab", "profile", str(PROGRAM), "--out", str(out / variant)]
    words += ["--", variant, "--steps", str(steps(variant))]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with (out / f"{variant}.txt").open("w") as file:
        process = subprocess.Popen([sys.executable, *words], stdout=file, stderr=subprocess.STDOUT, env=env)
    while process.poll() is None and not list((out / variant).glob("artifacts/*.collected")):
        time.sleep(0.1)
    return process


def compared(variant: str, times: dict[str, float], out: Path) -> dict:
    document = json.loads((out / variant / "profile.json").read_text())
    finding = document["findings"][0]
    before, after = times["slowed"], times["mended"]
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
        "profiled_plain_ms": (document["summary"]["plain_step_us"] or 0.0) / 1e3,
        "kind": finding["kind"],
        "line": finding["line"],
        "code": blamed,
        "title": finding["title"],
        "named": named,
        "right": named and abs(told / saved - 1) <= NEAR,
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


if __name__ == "__main__":
    sys.exit(main())
