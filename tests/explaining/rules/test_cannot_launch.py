from kernellab.explaining.rulebook import find
from kernellab.explaining.rules.cannot_launch import examine
from support.subjects import LIMIT_US, kernel, subject

# Its accesses are uncoalesced as well.
REFUSED = kernel(blocks_per_sm=0, occupancy=0.0, refusal="too many threads", remedy="fewer", sectors=8.0)


def test_for_a_kernel_that_cannot_launch_only_that_is_reported():
    (finding,) = find(subject(REFUSED))
    assert (finding.name, finding.title, finding.do) == ("cannot-launch", "cannot launch: too many threads", "fewer")


def test_a_kernel_that_was_timed_could_be_launched():
    assert examine(subject(REFUSED, time_us=3 * LIMIT_US)) is None
