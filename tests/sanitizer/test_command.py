"""The command line of compute-sanitizer."""

from kernellab.sanitizer.command import command


def test_the_program_comes_last_and_memcheck_pads_allocations():
    line = command("memcheck", "/x/compute-sanitizer", ["python", "-c", "pass"])
    assert line[:3] == ["/x/compute-sanitizer", "--tool", "memcheck"]
    assert line[-3:] == ["python", "-c", "pass"]
    assert "--padding" in line
    assert "--padding" not in command("racecheck", "s", [])
