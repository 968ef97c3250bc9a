"""Records of A/A runs for tests."""

from kernellab.doctor.aa_summary import IMPLS

CASE = {"dims": {"R": 105, "N": 8}, "dtype": "float32", "options": {}, "layout": "contiguous", "device": "cpu"}
_WOBBLE = [0.999, 1.001, 1.0, 1.0005, 0.9995, 1.0, 1.001, 0.999] * 4


def aa_record(base=100.0, **factors):
    """One run: each implementation takes the base times its factor, and varies a little from round to round."""

    def times(impl, at):
        samples = [base * factors.get(impl, 1.0) * wobble for wobble in _WOBBLE[at:] + _WOBBLE[:at]]
        series = {"pass": "forward", "timer": "clock", "cache": "cold", "status": "ok", "reason": None}
        return [{**series, "samples_us": samples, "rounds": list(range(len(samples)))}]

    return {
        "machine": {"class": "a machine"},
        "environment": {"packages": {"torch": "2"}},
        "results": [
            {
                "op": "aa",
                "impl": impl,
                "kind": "python",
                "case": CASE,
                "check": {"status": "ok", "reason": None},
                "times": times(impl, at),
                "cost": {},
            }
            for at, impl in enumerate(IMPLS)
        ],
    }
