"""CPU time of a step: this process, the verifiers' workers, and children that ended."""

import os
import time

from ictcli.rewards.workers import Limits, isolated
from ictcli.train.step import Moment


def burn(seconds: float) -> None:
    began = time.process_time()
    while time.process_time() - began < seconds:
        pass


def test_own_work_that_of_a_worker_and_that_of_an_ended_child_count_once() -> None:
    one = Limits(workers=1)
    isolated(burn, [(0.0,)], one)  # it has started, and imported what it needs
    taken: list[float] = []
    for work in (burn, lambda seconds: isolated(burn, [(seconds,)], one), burn_in_child):
        before = Moment.now().cpu
        work(0.3)
        taken.append(Moment.now().cpu - before)
    assert all(0.28 < each < 0.45 for each in taken), taken


def burn_in_child(seconds: float) -> None:
    if (child := os.fork()) == 0:
        burn(seconds)
        os._exit(0)
    os.waitpid(child, 0)
