"""Where problems come from: tasks to train on, each with a held-out part, and benchmarks.

Every choice is a function of (seed, step), so a batch can be made again at any time. Add a task or
a benchmark with `register_task` or `register_benchmark` in a plugin file; README, "A benchmark of
your own".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ictcli.errors import UserError, nearest
from ictcli.rewards import Verifier, find_verifier
from ictcli.seeds import generator
from ictcli.types import Problem

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True)
class Domain:
    """How problems of one kind are put to a model, and how its answers are judged."""

    verify: Verifier
    suffix: str = ""
    """Put behind the question, on a line of its own."""
    words: bool = True
    """False: the prompt is a bare text for a bare model, and no chat template is put around it."""
    forks: Callable[[str, str], list[int]] | None = None
    """Response positions at which a choice is made, in characters, where that is known."""


@dataclass(frozen=True)
class Task:
    name: str
    domain: Domain
    batch: Callable[[int, int, int], list[Problem]]
    """(seed, step, n) to the n problems of that step."""
    heldout: Callable[[int], list[Problem]]
    """n problems that `batch` never gives; fewer where there are no more."""
    finite: tuple[Problem, ...] = ()
    """All problems of a task that has a list of them; their lengths are checked before training."""


@dataclass(frozen=True)
class Benchmark:
    name: str
    domain: Domain
    problems: Callable[[int | None], list[Problem]]
    """The first n problems, or (None) all."""
    max_tokens: int = 2048


TASKS: dict[str, Callable[[], Task]] = {}
BENCHMARKS: dict[str, Callable[[], Benchmark]] = {}


def register_task(name: str) -> Callable[[Callable[[], Task]], Callable[[], Task]]:
    """Decorator: a function that builds a task, called only when it is used."""

    def add(build: Callable[[], Task]) -> Callable[[], Task]:
        TASKS[name] = build
        return build

    return add


def register_benchmark(
    name: str,
) -> Callable[[Callable[[], Benchmark]], Callable[[], Benchmark]]:
    """Decorator: a function that builds a benchmark, called only when it is used."""

    def add(build: Callable[[], Benchmark]) -> Callable[[], Benchmark]:
        BENCHMARKS[name] = build
        return build

    return add


def find_task(name: str, reward: str | None = None) -> Task:
    """A task by name, or of the problems in a JSONL file (see `tasks.data.jsonl_task`); `reward`
    names a verifier to judge it by instead of its own."""
    if reward is not None:
        verify, task = find_verifier(reward), find_task(name)
        return replace(task, domain=replace(task.domain, verify=verify))
    if name.endswith(".jsonl"):
        return data.jsonl_task(name)
    if name not in TASKS:
        raise UserError(
            f"There is no task {name!r}{nearest(name, sorted(TASKS))}.",
            "the tasks are: " + ", ".join(sorted(TASKS)) + ", or the path of a .jsonl file",
        )
    return TASKS[name]()


def find_benchmark(name: str) -> Benchmark:
    """A benchmark by name, a task's held-out part by the task's, or a JSONL file's problems."""
    if name.endswith(".jsonl"):
        return data.jsonl_benchmark(name)
    if name in TASKS and name not in BENCHMARKS:
        task = TASKS[name]()
        return Benchmark(name, task.domain, lambda n: task.heldout(n or len(task.finite) or 512))
    if name not in BENCHMARKS:
        raise UserError(
            f"There is no benchmark {name!r}{nearest(name, sorted(BENCHMARKS))}.",
            "the benchmarks are: "
            + ", ".join(sorted(BENCHMARKS))
            + ", or the path of a .jsonl file",
        )
    return BENCHMARKS[name]()


def shuffled_batch(problems: Sequence[Problem], seed: int, step: int, n: int) -> list[Problem]:
    """The n problems of a step (1, 2, ...) over a finite set: each epoch a new permutation."""
    N, first = len(problems), (step - 1) * n
    chosen: list[Problem] = []
    for place in range(first, first + n):
        order = generator(seed, "order", place // N).permutation(N)
        chosen.append(problems[int(order[place % N])])
    return chosen


# These modules register what they build, and need the names above.
from ictcli.tasks import builtin, data  # noqa: E402, F401  # pyright: ignore[reportUnusedImport]
