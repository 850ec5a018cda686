"""A moment of a run, on the clock, in CPU time and in messages among its processes."""

import os
import time
from typing import NamedTuple

from ictcli.engine.communicator import Communicator
from ictcli.rewards import workers


class Moment(NamedTuple):
    """Seconds and counts; only differences mean something."""

    clock: float
    cpu: float
    """Of this process, the verifiers' workers and every child that ended."""

    messages: int
    message_bytes: int

    @classmethod
    def now(cls) -> "Moment":
        ended = os.times()
        own = time.process_time() + ended.children_user + ended.children_system
        cpu = own + workers.cpu_seconds()
        return cls(time.perf_counter(), cpu, Communicator.messages, Communicator.message_bytes)

    def messages_since(self, before: "Moment") -> dict[str, int]:
        """Those of `StepTimings`; none in one process."""
        names = ("messages", "message_bytes")
        sent = {name: getattr(self, name) - getattr(before, name) for name in names}
        return sent if sent["messages"] else {}
