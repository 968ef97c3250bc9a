"""The tables of architectures and GPUs agree with the vendor's figures, with second sources, and with each other."""

import re

import pytest

from kernellab.base.errors import UserError
from kernellab.machine.chips import chip, chips
from kernellab.machine.gpus import gpu, gpus, same_product, variants

ALL = gpus()


def test_there_are_gpus_of_every_kind_and_generation():
    assert len(ALL) >= 25
    assert {g.chip.generation for g in ALL} >= {"Turing", "Ampere", "Ada", "Hopper", "Blackwell"}
    for kind in ("GeForce", "RTX A", "RTX PRO", "A100", "H100", "B200", "L4", "T4"):
        assert any(kind in g.name for g in ALL), kind


@pytest.mark.parametrize("product", ALL, ids=lambda g: g.name)
def test_bandwidth_and_fp32_rate_are_what_the_vendor_states(product):
    assert product.pin_gbps == pytest.approx(product.stated_gbps, rel=0.02)
    assert product.fp32_tflops == pytest.approx(product.stated_fp32_tflops, rel=0.02)


@pytest.mark.parametrize("product", ALL, ids=lambda g: g.name)
def test_every_entry_names_its_sources_and_what_is_left_out(product):
    assert product.sources
    assert all(source.title for source in product.sources)
    assert any(source.url.startswith("https://") for source in product.sources)
    for value, word in ((product.l2_bytes, "L2"), (product.tdp_w, "power")):
        assert value is not None or word in product.note


def test_second_sources_agree():
    seconds = [g for g in ALL if g.second]
    assert len(seconds) >= 25
    for g in seconds:
        ours = {"gbps": g.pin_gbps, "fp32_tflops": g.fp32_tflops, "l2_mb": (g.l2_bytes or 0) / 2**20}
        assert g.second_source is not None
        assert g.second_source not in g.sources
        for name, value in g.second.items():
            mine = ours[name] if name in ours else getattr(g, name)
            exact = name in ("sms", "bus_bits", "memory_gb")
            assert mine == pytest.approx(value, rel=0 if exact else 0.02), (g.name, name)


def test_second_sources_cover_several_facts():
    facts = {name for g in ALL for name in g.second}
    assert facts >= {"sms", "boost_mhz", "gbps", "fp32_tflops", "l2_mb", "bus_bits"}
    assert sum("sms" in g.second for g in ALL) >= 5


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a100", "A100 SXM4 80GB"),
        ("A100-SXM4-80GB", "A100 SXM4 80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100 PCIe 40GB"),
        ("h100", "H100 SXM5 80GB"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM5 80GB"),
        ("NVIDIA H100 PCIe", "H100 PCIe 80GB"),
        ("NVIDIA H200", "H200 SXM 141GB"),
        ("rtx 4090", "GeForce RTX 4090"),
        ("4090", "GeForce RTX 4090"),
        ("NVIDIA GeForce RTX 3080", "GeForce RTX 3080 10GB"),
        ("Tesla T4", "T4"),
        ("6000 ada", "RTX 6000 Ada"),
        ("rtx 6000", "Quadro RTX 6000"),
        ("a6000", "RTX A6000"),
        ("rtx pro 6000", "RTX PRO 6000 Blackwell Workstation"),
    ],
)
def test_names_are_read_as_people_and_drivers_write_them(written, name):
    assert gpu(written).name == name


def test_a_family_means_its_common_variant_and_the_others_are_listed():
    assert {g.name for g in variants("a100")} == {"A100 SXM4 40GB", "A100 PCIe 80GB", "A100 PCIe 40GB"}
    assert variants("A100-SXM4-80GB") == []
    assert variants("rtx 4090") == []


def test_for_an_unknown_gpu_the_nearest_names_are_suggested():
    with pytest.raises(UserError, match=r"no GPU 'rtx 4900' in the database: did you mean RTX 4090 or"):
        gpu("rtx 4900")
    with pytest.raises(UserError, match="klab device --list"):
        gpu("mi300x")
    with pytest.raises(UserError, match="klab device --list"):
        gpu("")


def test_no_name_means_two_gpus():
    plain = [re.sub(r"[^a-z0-9]", "", text.lower()) for g in ALL for text in {g.name, *g.aliases}]
    assert len(plain) == len(set(plain))


# Architectures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["sm_90", "sm_90a", "90", "9.0", "SM90", "compute_90"])
def test_an_architecture_is_read_in_every_spelling(written):
    assert chip(written).arch == "sm_90"


def test_an_architecture_with_two_digits_is_read():
    assert chip("10.0").arch == chip("sm_100f").arch == "sm_100"
    assert chip("12.1").capability == (12, 1)


@pytest.mark.parametrize("written", ["sm_91", "9", "hopper", "", "sm_9000"])
def test_for_an_unknown_architecture_the_known_ones_are_listed(written):
    with pytest.raises(UserError, match=r"sm_75, sm_80.*sm_120"):
        chip(written)


def test_every_architecture_from_turing_on_is_there():
    expected = {"sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"}
    assert {c.arch for c in chips()} >= expected


@pytest.mark.parametrize("row", chips(), ids=lambda c: c.arch)
def test_the_limits_of_an_architecture_fit_together(row):
    assert row.shared_splits[-1] == row.shared_per_sm_bytes <= row.l1_and_shared_bytes
    assert row.shared_per_block_bytes + row.shared_reserved_bytes == row.shared_per_sm_bytes
    assert row.warps_per_sm * 32 == row.threads_per_sm
    assert row.threads_per_sm >= row.threads_per_block


@pytest.mark.parametrize(
    ("name", "dtype", "stated", "mhz"),
    [
        ("t4", "fp16", 65, None),
        ("t4", "int8", 130, None),
        ("a100", "bf16", 312, None),
        ("a100", "tf32", 156, None),
        ("a100", "int8", 624, None),
        ("a100", "fp64", 19.5, None),
        ("a40", "bf16", 149.7, None),
        ("a40", "tf32", 74.8, None),
        ("l40", "fp16", 181, None),
        ("l40", "fp8", 362, None),
        ("l40s", "fp16", 362, None),
        ("rtx 2080 ti", "fp16", 53.8, None),  # accumulated in fp32, like every rate here
        ("rtx 3090", "bf16", 71.2, None),
        ("rtx 3090", "tf32", 35.6, None),
        ("rtx 3090", "int8", 284, None),
        ("rtx 4090", "fp16", 165.2, None),
        ("rtx 4090", "tf32", 82.6, None),
        ("rtx 4090", "fp8", 330.3, None),
        ("rtx 4090", "int8", 660.6, None),
        ("rtx 5090", "bf16", 209.5, None),
        ("h100", "bf16", 989, 1830),  # stated at a lower clock than fp32
        ("h100", "fp8", 1979, 1830),
        ("h100 pcie", "bf16", 756, 1620),
        ("b200", "bf16", 2250, 1860),
        ("rtx pro 6000", "bf16", 503.8, None),
        ("jetson agx thor", "fp8", 517, None),
    ],
)
def test_tensor_rates_are_what_the_vendor_states(name, dtype, stated, mhz):
    product = gpu(name)
    rate = product.tensor_tflops(dtype) * (mhz or product.boost_mhz) / product.boost_mhz
    assert rate == pytest.approx(stated, rel=0.02)


def test_a_dtype_that_the_tensor_cores_lack_has_no_rate():
    assert gpu("t4").tensor_tflops("bf16") is None
    assert gpu("a100").tensor_tflops("fp8") is None


@pytest.mark.parametrize("name", ["H20", "RTX A400", "A3", "B2"])
def test_a_number_does_not_match_a_longer_number(name):
    with pytest.raises(UserError, match="in the database"):
        gpu(name)


def test_a_drivers_name_means_the_same_product_as_a_users():
    assert same_product("NVIDIA H200", "h200")
    assert not same_product("NVIDIA H100 80GB HBM3", "h200")
    assert same_product("Voodoo2", "Voodoo2")  # unknown, but the same name
    assert not same_product("Voodoo2", "h200")
