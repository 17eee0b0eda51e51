"""The most memory that a process has held."""

import re
from pathlib import Path


def peak_memory() -> float:
    """The most memory that this process has held, in megabytes.

    From Linux: ``getrusage`` counts what the process held that started this one, too.
    """
    shown = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert shown, "the system does not say how much memory a process has held"
    return int(shown[1]) / 1024
