"""Memory of this process."""

from __future__ import annotations

import re
import sys
from pathlib import Path


def peak_rss() -> int:
    """The largest resident set so far, in bytes.

    On Linux from /proc, whose mark begins anew with a program; getrusage's is inherited from the
    process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists() and (found := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(found[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
