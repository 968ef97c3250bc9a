"""benchmarks/facts_vs_ncu.py: facts of kernels against Nsight Compute."""

from support.benchmarks import load_script

NCU = "\n".join(
    (
        "==PROF== Connected to process 1",
        '"ID","Kernel Name","launch__block_size","launch__grid_size","launch__registers_per_thread",'
        '"launch__waves_per_multiprocessor"',
        '"","","","","register/thread",""',
        '"0","map_flat","128","524,288","18","248.24"',
    )
)


def test_the_output_of_nsight_compute_is_read_and_a_difference_is_found():
    case = {"dims": {"...": [8192], "N": 8192}, "dtype": "float32", "options": {}}
    ours = {"name": "map_flat", "case": case, "grid": [524288, 1, 1], "block": [128, 1, 1], "registers": 18}
    ours |= {"static_shared_bytes": 0, "dynamic_shared_bytes": 0, "occupancy": {"fraction": 1.0, "blocks_per_sm": 16}}
    module = load_script("facts_vs_ncu")
    module.sms = lambda: 132
    theirs = module.parse_raw_page(NCU)
    assert theirs == [{"name": "map_flat", "threads": 128, "blocks": 524288, "registers": 18, "waves": 248.24}]
    assert all(row["equal"] for row in module.compare("gelu", [ours], theirs))
    wrong = module.compare("gelu", [{**ours, "registers": 20}], theirs)
    assert [row["fact"] for row in wrong if not row["equal"]] == ["registers"]
    assert module.parse_raw_page("==ERROR== no kernels were profiled") == []
