"""The command line of compute-sanitizer."""

from __future__ import annotations

from collections.abc import Sequence

_OPTIONS = (
    *("--target-processes", "application-only"),  # not the compilers that the process starts
    *("--strip-paths", "no"),
    *("--show-backtrace", "device"),  # the host's stack takes forty lines per report and says nothing new
    *("--print-limit", "4000"),
    *("--launch-timeout", "180"),  # importing torch from a cold disk may take longer than the default of 10 s
)
_TOOL_OPTIONS = {
    # An invalid access ends only its kernel, so that the next trials still run. Padding: buffers may be adjacent, and
    # an access beyond one would hit the next. API errors reach the caller as exceptions.
    "memcheck": (
        *("--destroy-on-device-error", "kernel"),
        *("--padding", "16384"),
        *("--report-api-errors", "no"),
    ),
}


def command(tool: str, sanitizer: str, program: Sequence[str]) -> list[str]:
    """`sanitizer`: the path of compute-sanitizer. `program`: the command line to run under the tool."""
    return [sanitizer, "--tool", tool, *_OPTIONS, *_TOOL_OPTIONS.get(tool, ()), *program]
