"""How much memory is free, where a control group sets a limit."""

import pytest

from kernellab.machine.memory import _free_in_cgroup

VERSIONS = {
    1: (
        "4:memory:/box/inner\n3:cpu:/other\n",
        "sys/fs/cgroup/memory",
        "memory.limit_in_bytes",
        "memory.usage_in_bytes",
    ),
    2: ("0::/box/inner\n", "sys/fs/cgroup", "memory.max", "memory.current"),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("place", ["", "box", "box/inner"])
def test_the_tightest_control_group_limits_free_memory(tmp_path, version, place):
    text, top, limit, used = VERSIONS[version]
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(text)
    assert _free_in_cgroup(tmp_path) is None
    for folder, most in (("", "max" if version == 2 else str(1 << 62)), (place, "1000")):
        group = tmp_path / top / folder
        group.mkdir(parents=True, exist_ok=True)
        (group / limit).write_text(f"{most}\n")
        (group / used).write_text("700\n")
        (group / "memory.stat").write_text("anon 400\ninactive_file 30\ntotal_inactive_file 30\n")
    assert _free_in_cgroup(tmp_path) == 330
