"""Running a piece of work in forks, each killed one file operation later than the one before."""

import functools
import itertools
import json
import os
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.truncate"}
"""Audit events of Python's that change a disk; `open` for writing is one too, and `SYNC` ours."""
SYNC, PIECE = "test.sync", "test.piece"


def watch(look: Callable[[str, tuple[Any, ...]], None]) -> None:
    """Have `look` called before each change of the disk in this process, for good."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
        if writes or event in CHANGES or event in (SYNC, PIECE):
            look(event, args)

    fsync = os.fsync

    @functools.wraps(fsync)
    def synced(descriptor: int) -> None:
        sys.audit(SYNC, str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        fsync(descriptor)

    os.fsync = synced
    sys.addaudithook(hook)


def forked(work: Callable[[], object]) -> int:
    """Do it in a fork; gives how that ended: 0, 1 for an error, or minus the signal."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def deaths(
    prepare: Callable[[], None], work: Callable[[], object], every: int = 1
) -> Iterator[int]:
    """Prepare and do the work again and again, killed before its first change of the disk, its
    second, ..., until it comes to its end; gives the number of each after it. Or before `every`
    so manyth, from a random one on."""
    for number in itertools.count(random.randint(1, every), every):

        def die(event: str, args: tuple[Any, ...], left: Iterator[int]) -> None:
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        def doomed(number: int = number) -> None:
            watch(functools.partial(die, left=itertools.count(number - 1, -1)))
            work()

        prepare()
        ended = forked(doomed)
        assert ended in (0, -signal.SIGKILL)
        yield number
        if ended == 0:
            return


def changes(work: Callable[[], object], into: Path) -> list[tuple[str, list[str]]]:
    """The changes of the disk that the work makes, in their order: event, paths."""
    found: list[tuple[str, list[str]]] = []

    def look(event: str, args: tuple[Any, ...]) -> None:
        found.append((event, [os.fspath(arg) for arg in args[:2] if not isinstance(arg, int)]))

    def watched() -> None:
        watch(look)
        work()
        into.write_text(json.dumps(found[:]))

    assert forked(watched) == 0
    return [(event, paths) for event, paths in json.loads(into.read_text())]
