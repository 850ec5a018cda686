"""Where problems come from: tasks to train on, each with a held-out part, and benchmarks.

Every choice is a function of (seed, step), so a batch can be made again at any time. Add a task or
a benchmark with `register_task` or `register_benchmark` in a plugin file; README, "A benchmark of
your own".
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ictcli.errors import UserError, nearest
from ictcli.recipe.settings import ColumnSettings, HubSettings
from ictcli.rewards import LIMITS, Judge, Limits, Verdict, Verifier, find_verifier, grade
from ictcli.seeds import generator
from ictcli.types import Problem

BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True)
class Domain:
    """How problems of one kind are put to a model, and how its answers are judged."""

    verify: Verifier | Judge
    suffix: str = ""
    """Put behind the question, on a line of its own."""
    words: bool = True
    """False: the prompt is a bare text for a bare model, and no chat template is put around it."""
    forks: Callable[[str, str], list[int]] | None = None
    """Response positions at which a choice is made, in characters, where that is known."""
    pattern: str | None = None
    """A regular expression whose first group is the answer, instead of the last box."""
    limits: Limits = LIMITS
    """Of judging one answer."""
    private: bool = False
    """Questions and what a model writes of them are shown and stored only where that is asked
    for: the terms of the data forbid spreading them."""

    def judge(self, problems: Sequence[Problem], responses: Sequence[str]) -> list[Verdict]:
        """A verdict a response; each problem has as many responses as every other, side by side."""
        each = len(responses) // max(len(problems), 1)
        asked = [problem for problem in problems for _ in range(each)]
        return grade(
            responses,
            [problem.gold for problem in asked],
            self.verify,
            pattern=self.pattern,
            choices=[problem.choices for problem in asked],
            limits=self.limits,
        )


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
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    """Where they come from: path, config, split, revision; or file, sha256."""
    notes: tuple[str, ...] = ()
    """Sentences for the user: problems left out, a revision other than the pinned one."""
    examined: tuple[str, Domain] | None = None
    """Name and domain of the held-out problems, where they are not of this task."""
    train: tuple[Problem, ...] = ()
    """Those that `batch` gives, each once an epoch (`with_train`); empty: it makes its own."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """How many problems were left out of training, by reason."""
    solutions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Worked responses by problem id, to show as examples."""
    difficulty: Mapping[str, float] = field(default_factory=dict[str, float])
    """By problem id, where that is known."""
    rank: Mapping[str, float] = field(default_factory=dict[str, float])
    """By problem id, of a curriculum; empty: none."""


@dataclass(frozen=True)
class Benchmark:
    name: str
    domain: Domain
    problems: Callable[[int | None], list[Problem]]
    """The first n problems, or (None) all."""
    max_tokens: int = 2048
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    """As a task's."""
    notes: tuple[str, ...] = ()
    """As a task's."""


TASKS: dict[str, Callable[..., Task]] = {}
BENCHMARKS: dict[str, Callable[..., Benchmark]] = {}


def register_task(name: str) -> Callable[[Callable[..., Task]], Callable[..., Task]]:
    """Decorator: a function that builds a task, called only when it is used. It may have the
    parameters `data`, a file in place of its own data (or None), and `verify`, the verifier to
    judge by (None: its own)."""

    def add(build: Callable[..., Task]) -> Callable[..., Task]:
        TASKS[name] = build
        return build

    return add


def register_benchmark(
    name: str,
) -> Callable[[Callable[..., Benchmark]], Callable[..., Benchmark]]:
    """Decorator: a function that builds a benchmark, called only when it is used. It may have the
    parameter `data`, a file in place of its own data (or None)."""

    def add(build: Callable[..., Benchmark]) -> Callable[..., Benchmark]:
        BENCHMARKS[name] = build
        return build

    return add


def find_task(
    name: str,
    reward: str | None = None,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
) -> Task:
    """A task by name, or of a data set of one's own (see `tasks.own.read_own`), of which `columns`
    and `hub` say more. `reward` names a verifier to judge it by instead of its own, `data` a file
    with the same columns as the task's own data, instead of that. UserError where the problems
    cannot be had."""
    verify = None if reward is None else find_verifier(reward)
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if own.is_own(name):
        _refuse_data(f"The task {name} is a data set", data)
        return own.own_task(name, verify, columns, hub)
    if name not in TASKS:
        _refuse_kind(name)
        raise UserError(
            f"There is no task {name!r}{nearest(name, sorted(TASKS))}.",
            "the tasks are: " + ", ".join(sorted(TASKS)) + _OWN,
        )
    _refuse_tables(f"the task {name}", columns, hub)
    task = _build("task", name, TASKS[name], data=data, verify=verify)
    return task if verify is None else replace(task, domain=replace(task.domain, verify=verify))


def find_benchmark(
    name: str,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
) -> Benchmark:
    """A benchmark by name, a task's held-out part by the task's, or a data set of one's own, of
    which `columns` and `hub` say more. `data` is a file with the same columns as the benchmark's
    own data, instead of that. UserError where the problems cannot be had."""
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if own.is_own(name):
        _refuse_data(f"The benchmark {name} is a data set", data)
        return own.own_benchmark(name, columns, hub)
    if name not in TASKS and name not in BENCHMARKS:
        _refuse_kind(name)
        raise UserError(
            f"There is no benchmark {name!r}{nearest(name, sorted(BENCHMARKS))}.",
            "the benchmarks are: " + ", ".join(sorted(BENCHMARKS)) + _OWN,
        )
    _refuse_tables(f"the benchmark {name}", columns, hub)
    if name in BENCHMARKS:
        return _build("benchmark", name, BENCHMARKS[name], data=data)
    task = find_task(name, data=data)
    whole = len(task.finite) or 512
    return Benchmark(
        name,
        task.domain,
        lambda n: task.heldout(n or whole),
        source=task.source,
        notes=task.notes,
    )


_OWN = ", the path of a .jsonl, .csv or .parquet file, or hub:owner/name"


def _build(kind: str, name: str, build: Callable[..., Any], **given: Any) -> Any:
    """Call a builder with those of its parameters it has; only `data` must not go unheard."""
    taken = inspect.signature(build).parameters
    if "data" not in taken:
        _refuse_data(f"The {kind} {name} makes its own problems", given["data"])
    return build(**{key: value for key, value in given.items() if key in taken})


def _refuse_kind(name: str) -> None:
    if Path(name).is_file():
        raise UserError(
            f"{name} is a file of a kind that is not read.", "a .jsonl, .csv or .parquet file is"
        )


def _refuse_data(why: str, data: str | None) -> None:
    if data is not None:
        raise UserError(f"{why}; {data} cannot stand in for it.", "leave the data file out")


def _refuse_tables(what: str, columns: ColumnSettings, hub: HubSettings) -> None:
    for table, given in (("columns", columns), ("hub", hub)):
        keys = list(given.model_dump(exclude_none=True))
        if keys:
            raise UserError(
                f"{table}.{keys[0]} is of data sets of one's own, and {what} knows its own.",
                "name a file or hub:owner/name, or leave the key out",
            )


def shuffled_batch(
    problems: Sequence[Problem],
    seed: int,
    step: int,
    n: int,
    rank: Sequence[float] | None = None,
) -> list[Problem]:
    """The n problems of a step (1, 2, ...) over a finite set: each epoch a new permutation. With
    `rank`, one number a problem, the first epoch goes from the least to the greatest, equals in
    the order of the permutation (ours: a curriculum of one epoch, after which all is mixed)."""
    N, first = len(problems), (step - 1) * n
    orders: dict[int, list[int]] = {}
    chosen: list[Problem] = []
    for place in range(first, first + n):
        epoch = place // N
        if epoch not in orders:
            orders[epoch] = generator(seed, "order", epoch).permutation(N).tolist()
            if rank is not None and epoch == 0:
                orders[epoch].sort(key=rank.__getitem__)
        chosen.append(problems[orders[epoch][place % N]])
    return chosen


def with_train(task: Task, train: Sequence[Problem]) -> Task:
    """The task over these problems to train on, in the order of `shuffled_batch`; those without a
    rank come last."""
    train = tuple(train)
    rank = [task.rank.get(problem.id, math.inf) for problem in train] if task.rank else None

    def batch(seed: int, step: int, n: int) -> list[Problem]:
        return shuffled_batch(train, seed, step, n, rank)

    return replace(task, train=train, batch=batch)


# These modules register what they build, and need the names above.
from ictcli.tasks import (  # noqa: E402
    benchmarks,  # noqa: F401  # pyright: ignore[reportUnusedImport]
    builtin,  # noqa: F401  # pyright: ignore[reportUnusedImport]
    own,
)
