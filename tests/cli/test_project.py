"""Defaults in [tool.kernellab] of a project."""


def test_a_project_sets_defaults(klab, tmp_path):
    (tmp_path / "pyproject.toml").write_text('[tool.kernellab]\nseed = 7\ndevice = "cpu"\nruns = "elsewhere"\n')
    seen = klab("check", "square", "--impl", "torch", "--shape", "8x8", "--json")
    assert (seen.record["seed"], seen.record["machine"]["device"]) == (7, "cpu")
    assert (tmp_path / "elsewhere").is_dir()
    (tmp_path / "pyproject.toml").write_text("[tool.kernellab]\nsede = 7\n")
    seen = klab("check", "square")
    assert (seen.code, "did you mean seed" in seen.err) == (2, True)
