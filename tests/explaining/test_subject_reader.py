"""From a record to subjects: times, neighbours, and the GPU that something was compiled for."""

import pytest

from kernellab.base.errors import UserError
from kernellab.explaining.subject_reader import read_subjects
from support.explain_records import CHAIN_TRAFFIC, GPU, code_entry, code_kernel, record, result, series, tuned_entry
from support.subjects import GB, first_finding


def test_a_timed_result_is_a_subject_with_the_times_of_the_others():
    slow, fast = read_subjects(record(result("manual", 2250.0, traffic=CHAIN_TRAFFIC), result("triton", 510.0)))
    assert (slow.time_us, slow.other_times_us) == (2250.0, {"triton": 510.0})
    assert slow.device.sms == 132
    assert first_finding(slow).name == "unfused-chain"
    evidence = {e.what: e.value for e in first_finding(slow).evidence}
    assert evidence["triton, for comparison"] == pytest.approx(2250 / 510)
    assert first_finding(fast).name == "at-the-limit"


def test_other_implementations_are_fused_where_torch_sees_no_chain():
    single = [{"op": "aten::gelu", "read_bytes": GB, "write_bytes": GB, "kernels": [0]}]
    fused = [result("torch", 600.0, traffic=single), result("compile", 700.0), result("cpp", 800.0, traffic=[])]
    # Of the last nothing is known.
    unfused = [result("manual-2", 900.0, traffic=CHAIN_TRAFFIC), result("python", 900.0)]
    manual = read_subjects(record(result("manual", 2250.0), *fused, *unfused))[0]
    assert manual.fused_impls == ["torch", "compile", "cpp"]


def test_warm_and_launch_series_are_separate_from_the_main_one():
    more = [series(5.0, cache="warm"), series(20.0, "launch", "warm")]
    (subject,) = read_subjects(record(result("triton", 9.0, more_series=more)))
    assert (subject.time_us, subject.warm_us, subject.launch_us) == (9.0, 5.0, 20.0)


def test_a_profiled_call_gives_its_kernels_and_the_time_of_host_and_gpu():
    profiled = {"inside": {"host_us": 30.0, "device_us": 8.0}, "kernels": [{"name": "a"}, {"name": "b"}]}
    (subject,) = read_subjects(record(result("triton", 9.0, **profiled)))
    assert (subject.profiled_host_us, subject.profiled_gpu_us) == (30.0, 8.0)
    assert subject.profiled_kernels == ["a", "b"]


def test_a_wrong_implementation_is_not_explained():
    assert read_subjects(record(result("liar", 10.0, check={"status": "wrong"}))) == []


COMPILED = code_entry(status="none", traffic=CHAIN_TRAFFIC)


def test_what_was_compiled_and_not_timed_is_a_subject_for_the_gpu_it_was_compiled_for():
    (subject,) = read_subjects(record(code=[COMPILED]))
    assert subject.time_us is None
    assert subject.device.name == "H100 SXM5 80GB"


def test_another_gpu_of_the_architecture_can_be_named():
    (h100,), (h200,) = read_subjects(record(code=[COMPILED])), read_subjects(record(code=[COMPILED]), "h200")
    assert h200.gbps > h100.gbps


def test_a_gpu_of_another_architecture_is_refused():
    reason = "A100 SXM4 80GB is sm_80, and the kernels of this run are compiled for sm_90"
    with pytest.raises(UserError, match=reason):
        read_subjects(record(code=[COMPILED]), "a100")


@pytest.mark.parametrize(
    ("compiled_for", "measured"),
    [
        ({"gpu": GPU["name"]}, [True]),  # explained by its time
        ({"gpu": "H100 SXM5 80GB"}, [True, False]),
        ({"gpu": "A100 SXM4 80GB", "arch": "sm_80"}, [True, False]),
    ],
)
def test_code_for_another_gpu_is_explained_beside_the_timed_result(compiled_for, measured):
    subjects = read_subjects(record(result("triton", 510.0), code=[{**COMPILED, **compiled_for}]))
    assert [subject.measured for subject in subjects] == measured


def test_a_timed_result_has_the_launches_of_the_gpu_it_was_timed_on():
    elsewhere = code_entry(code_kernel(grid=(114, 1, 1)), gpu="H100 PCIe 80GB")
    here = code_entry(code_kernel(grid=(132, 1, 1)), gpu=GPU["name"])
    timed, modelled = read_subjects(record(result("triton", 510.0), code=[elsewhere, here]))
    assert (timed.measured, timed.kernels[0].blocks) == (True, 132)
    assert (modelled.measured, modelled.kernels[0].blocks) == (False, 114)


def test_an_autotuned_kernel_without_a_configuration_that_fits_is_not_explained():
    assert read_subjects(record(code=[tuned_entry(None, None)])) == []
