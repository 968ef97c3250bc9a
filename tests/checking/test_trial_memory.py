"""Memory around a trial."""


def test_poison_does_not_import_torchs_compiler(klab, tmp_path):
    file = tmp_path / "double.py"
    file.write_text(
        "import sys\n"
        "import torch\n"
        "import kernellab as kl\n\n"
        "@kl.op(cases=kl.cases(shape=[(4, 8)], dtype=['float32']))\n"
        "def double(x):\n"
        "    return 2 * x\n\n"
        "@double.impl('allocates')\n"
        "def _(x):\n"
        "    assert 'torch._inductor' not in sys.modules, 'the compiler is imported'\n"
        "    out = torch.empty_like(x)\n"
        "    assert out.isnan().all(), 'fresh memory is not poisoned'\n"
        "    return torch.mul(x, 2, out=out)\n"
    )
    seen = klab("check", file, "--impl", "allocates", "--shape", "4x8", "--device", "cpu", "--json")
    assert seen.record["results"][0]["check"]["reason"] is None
