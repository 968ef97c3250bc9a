"""Names that a trace may contain and that must stay text: markup, scripts, control characters, a very long name."""

HOSTILE_NAMES = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "${window.hacked = 1}",
    "\x00\x1b[31m\u202e\ud800\r\n",
    "x" * 10_000_000,
]
