"""Waiting for what another process does."""

import time
from collections.abc import Callable

SECONDS = 60


def wait_until(true: Callable[[], object], every: float = 0.002) -> None:
    """Ask every so many seconds until the answer is true; for a minute at most."""
    until = time.monotonic() + SECONDS
    while not true():
        assert time.monotonic() < until
        time.sleep(every)
