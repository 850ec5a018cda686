"""A moment of a run, on the clock and in CPU time."""

import os
import time
from typing import NamedTuple

from ictcli.rewards import workers


class Moment(NamedTuple):
    """Seconds; only differences mean something."""

    clock: float
    cpu: float
    """Of this process, the verifiers' workers and every child that ended."""

    @classmethod
    def now(cls) -> "Moment":
        ended = os.times()
        own = time.process_time() + ended.children_user + ended.children_system
        return cls(time.perf_counter(), own + workers.cpu_seconds())
