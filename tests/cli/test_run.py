"""`klab run` as a user runs it."""

from pathlib import Path

import pytest


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
def test_cuda_without_a_gpu_is_refused(klab):
    seen = klab("run", "gelu", "--device", "cuda")
    assert (seen.code, "klab doctor" in seen.err) == (2, True)


def test_piped_output_is_plain_text_and_nothing_is_cut(klab):
    seen = klab("run", "square", "--impl", "manual,torch", "--shape", "64x64", "--quick", "--device", "cpu")
    assert seen.code == 0, seen.err
    assert "\x1b" not in seen.out
    assert "…" not in seen.out
    assert "square · 64×64 · float32 · cpu" in seen.out
    assert "2 results right." in seen.out
    assert "record: runs/" in seen.out


def test_interpreter_mode_is_ignored_by_the_command(klab):
    seen = klab("run", "square", "--impl", "torch", "--shape", "8x8", "--quick", "--json", TRITON_INTERPRET="1")
    assert seen.code == 0
    assert "TRITON_INTERPRET is set" in seen.err
    assert seen.result("torch")["derived"]["time"]["median_us"] > 0
