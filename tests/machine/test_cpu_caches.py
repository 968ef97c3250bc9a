"""The CPU's caches."""

from kernellab.machine.cpu_caches import CpuCache, data_caches, last_level_bytes


def test_data_caches_are_read_from_the_kernels_list(tmp_path):
    def index(number, **facts):
        folder = tmp_path / f"index{number}"
        folder.mkdir()
        for name, value in facts.items():
            (folder / name).write_text(f"{value}\n")

    index(0, level=1, type="Data", size="48K", shared_cpu_list="0")
    index(1, level=1, type="Instruction", size="32K", shared_cpu_list="0")
    index(2, level=3, type="Unified", size="48M", shared_cpu_list="0-3,8-11")
    index(3, level=2, type="Unified", size="1280K", shared_cpu_list="0-1")
    index(4, level=4, type="Unified")  # its size is not listed
    assert data_caches(tmp_path) == [
        CpuCache(1, 48 << 10, 1),
        CpuCache(2, 1280 << 10, 2),
        CpuCache(3, 48 << 20, 8),
    ]
    assert last_level_bytes(tmp_path) == 48 << 20


def test_without_a_list_a_last_level_of_32_mib_is_assumed(tmp_path):
    assert data_caches(tmp_path / "missing") == []
    assert last_level_bytes(tmp_path / "missing") == 32 << 20
