"""The reports of compute-sanitizer are read."""

from kernellab.record.batteries import finding_sentence, short_kernel_name
from kernellab.sanitizer.report import is_own, read_report
from support.sanitizer import block, mark, sample


def test_an_invalid_read_is_attributed_to_kernel_line_and_trial():
    report = read_report(mark(trials=2) + mark(begin="1000 · float32") + sample("memcheck"), "memcheck")
    assert len(report.findings) == 1
    finding = report.findings[0]
    assert (finding.kind, finding.kernel, finding.file, finding.line) == ("invalid read", "oob", "san.py", 7)
    assert (finding.bytes, finding.count, finding.own, finding.trial) == (16, 2, True, "1000 · float32")
    assert "out of bounds, 1 bytes after the nearest allocation of size 4,000 bytes" in finding.detail
    assert finding_sentence(finding.to_json()).startswith(
        "invalid read of 16 bytes in oob, san.py:7, at trial 1000 · float32: global memory"
    )
    assert not report.finished  # the sample is cut: there is no summary


def test_a_race_names_both_accesses():
    finding = read_report(sample("racecheck"), "racecheck").findings[0]
    assert (finding.kind, finding.kernel, finding.file, finding.line) == ("race", "race", "kernels.cu", 5)
    assert (finding.detail, finding.count) == ("write at kernels.cu:5, read at kernels.cu:6", 1024)
    warned = read_report(sample("racecheck").replace("Error: Race", "Warning: Race"), "racecheck").findings[0]
    assert (warned.kind, warned.severity) == ("possible race", "warning")


def test_an_uninitialised_read_is_recognised():
    finding = read_report(sample("initcheck"), "initcheck").findings[0]
    assert (finding.kind, finding.kernel, finding.line, finding.bytes) == ("uninitialised read", "uninit", 9, 4)


def test_a_report_without_findings_is_finished():
    report = read_report(
        mark(trials=1) + mark(begin="a") + mark(status="ok") + mark(end=True) + sample("synccheck"), "sync"
    )
    assert (report.findings, report.error_count, report.finished, report.returned, report.planned) == (
        [],
        0,
        True,
        1,
        1,
    )


def only(*lines, tool="memcheck"):
    report = read_report(block(*lines), tool).findings
    assert len(report) == 1
    return report[0]


def test_reports_as_in_the_manual_are_read():
    barrier = only("Barrier error detected. Divergent thread(s) in warp.", "at k(int *, int)+0xf0 in d.cu:79")
    assert (barrier.kind, barrier.detail, barrier.line) == ("barrier", "divergent thread(s) in warp", 79)
    off = only("Invalid __global__ write of size 4 bytes", "at k():0x160 in m.cu:6", "Address 0x7f65 is misaligned")
    assert (off.kind, off.kernel, off.line) == ("misaligned write", "k()", 6)
    cluster = only("Potential invalid __shared__ read of size 4 bytes", "at k(int *)+0x170 in c.cu:10")
    assert (cluster.kind, cluster.detail) == ("invalid read", "shared memory")
    nowhere = only("Uninitialized __global__ memory read of size 4 bytes", "at void mine<float>(float *)+0x80")
    assert (nowhere.file, nowhere.line, nowhere.kernel) == (None, None, "void mine<float>(float *)")
    fault = only("Warp Illegal Instruction", "at k()+0x10 in x.cu:3")
    assert (fault.kind, fault.line) == ("warp illegal instruction", 3)


def test_a_fault_in_a_called_function_belongs_to_its_kernel():
    where = "at helper(float *)+0x20 in /a b/h.cuh:8", "Device Frame: main_kernel(float *)+0x90 in /a b/k.cu:40"
    finding = only("Invalid __shared__ read of size 4 bytes", *where)
    assert (finding.kernel, finding.file, finding.line) == ("main_kernel(float *)", "/a b/h.cuh", 8)


def test_api_errors_and_other_output_are_not_findings():
    api = 'Program hit cudaErrorLaunchFailure (error 719) due to "unspecified launch failure" on CUDA API call to x.'
    text = block(api) + "========= Target application returned an error\n" + "impl prints ========= things\n"
    assert (read_report(text, "memcheck").findings, read_report(text, "memcheck").complaints) == ([], [])
    assert read_report("========= Error: No attachable process report.\n", "memcheck").complaints


def test_kernels_of_pytorch_and_of_libraries_are_not_own():
    own_kernels = (
        "oob",
        "gelu_kernel(float const*, long)",
        "triton_poi_fused_add_0",
        "void square<float>(float*)",
        "attn::k",
    )
    assert all(is_own(name, None) for name in own_kernels)
    pytorch_kernel = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)"
    assert not is_own(pytorch_kernel, None)
    assert not is_own(pytorch_kernel, "Loops.cuh")
    for name in ("sm90_xmma_gemm_f32f32", "nvjet_tst_128x8", "void cutlass::Kernel<x>(y)", "void cub::DeviceScan(int)"):
        assert not is_own(name, None)
    assert is_own("void cutlass::Kernel<x>(y)", "mine.cu")  # with source lines it was built here


def test_kernel_names_are_shortened():
    assert short_kernel_name("void ns::k<float, at::Half<2>>(float *, int)") == "ns::k"
    assert short_kernel_name("oob") == "oob"
    assert short_kernel_name("void at::(anonymous namespace)::softmax<4, float>(float*)") == "at::softmax"
