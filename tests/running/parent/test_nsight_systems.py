"""The commands of Nsight Systems."""

from pathlib import Path

from kernellab.machine import tools
from kernellab.running.parent import nsight_systems
from kernellab.running.parent.profiling import Program


def test_nsys_records_what_the_program_marks_if_there_is_a_gpu(monkeypatch):
    monkeypatch.setattr(tools, "has_gpu", lambda: True)
    program = Program("kernellab.running.programs.mlp", {"do": "train"})
    record, export = nsight_systems.commands(program, Path("/x/report.sqlite"), "/opt/nsys")
    assert record[:2] == ["/opt/nsys", "profile"]
    assert "--capture-range=cudaProfilerApi" in record
    assert export[-1] == "/x/report.nsys-rep"
    monkeypatch.setattr(tools, "has_gpu", lambda: False)  # nothing would start a capture
    assert not any("capture" in word for word in nsight_systems.commands(program, Path("r.sqlite"), "nsys")[0])
