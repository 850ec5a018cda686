"""Ctrl-C as a wish."""

import contextlib
import signal
from collections.abc import Callable, Generator


@contextlib.contextmanager
def stop_on_interrupt() -> Generator[Callable[[], bool]]:
    """Within, the first Ctrl-C only changes what the function that is yielded says; the second one
    is handled as it was before."""
    received: list[int] = []
    before = signal.getsignal(signal.SIGINT)

    def receive(number: int, frame: object) -> None:
        received.append(number)
        signal.signal(signal.SIGINT, before)

    if before != signal.SIG_IGN:  # nohup stays nohup
        signal.signal(signal.SIGINT, receive)
    try:
        yield lambda: bool(received)
    finally:
        signal.signal(signal.SIGINT, before)
