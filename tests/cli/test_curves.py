"""`klab curves`, and the curves that other verbs write."""


def test_a_bench_of_a_sweep_writes_its_curves_and_they_can_be_drawn_again(klab, tmp_path):
    seen = klab(
        *("bench", "matmul", "--impl", "torch", "--M", "8:128:x2", "--device", "cpu"),
        *("--seconds", "0.05", "--rounds", "8", "--out", "swept"),
    )
    assert seen.code == 0, seen.err
    assert "curves: swept/curves-matmul-M-float32." in seen.out
    assert "matmul torch: time grows as M^" in seen.out
    first = (tmp_path / "swept" / "curves-matmul-M-float32.csv").read_text()
    assert first.splitlines()[0].startswith("op,M,K,N,dtype,")
    again = klab("curves", "swept", "--out", "elsewhere")
    assert again.code == 0, again.err
    assert "matmul · over M = K = N · float32 · fp32_precision=ieee · cpu, TFLOP/s" in again.out
    assert (tmp_path / "elsewhere" / "curves-matmul-M-float32.csv").read_text() == first
    assert "\x1b" not in again.out


def test_a_run_without_a_sweep_has_no_curves(klab, tmp_path):
    seen = klab("check", "square", "--impl", "torch", "--shape", "8x8", "--device", "cpu", "--out", "one")
    assert "curves" not in seen.out
    refused = klab("curves", "one")
    assert (refused.code, "holds no sweep" in refused.err) == (2, True)
    assert klab("curves", "nowhere").code == 2
    assert not list(tmp_path.glob("one/curves*"))
