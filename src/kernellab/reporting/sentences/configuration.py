"""The configuration that an autotuner chose for a kernel, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kernellab.base.json import JsonValue


def describe_configuration(tuned: Sequence[int] | None, config: Mapping[str, JsonValue]) -> str:
    """What a tuner chose, by the names in the source: `BLOCK=256 num_warps=4`. Empty for a kernel without a tuner."""
    if not tuned:
        return ""
    constants = config.get("constexprs")
    options = {name: value for name, value in config.items() if name != "constexprs"}
    if options.get("num_ctas") == 1:  # no clusters
        del options["num_ctas"]
    values = {**(constants if isinstance(constants, dict) else {}), **options}
    return " ".join(f"{name}={value}" for name, value in values.items())
