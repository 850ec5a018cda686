"""Finding, registering and listing tasks and benchmarks by name."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ictcli.errors import UserError, unknown
from ictcli.recipe.data import HOLDOUT, ColumnSettings, HubSettings
from ictcli.recipe.generator import GYM, is_gym, parted
from ictcli.rewards import find_verifier
from ictcli.rows import KINDS
from ictcli.tasks.custom import is_custom, read_custom
from ictcli.tasks.gym import gym_task, is_installed
from ictcli.tasks.split import listed, split_task
from ictcli.tasks.task import Benchmark, Task

T = TypeVar("T", bound=Callable[..., Any])
R = TypeVar("R", Task, Benchmark)
UNSET = (None, ColumnSettings(), HubSettings())
TASKS: dict[str, Callable[..., Task]] = {}
BENCHMARKS: dict[str, Callable[..., Benchmark]] = {}


def register_task(name: str, about: str | None = None) -> Callable[[T], T]:
    """Return a decorator that registers a builder: a function that returns a task, called when the
    task is used. `about` describes the task in a line, if the function has no docstring.

    The function may have any of these parameters, which the recipe sets: `data`, a file, a folder
    that `datasets` saved or `hub:owner/name` (None: the task's data); `columns`, the column names
    in `data`; `hub`, the config, split and revision of `data`; `verify`, the verifier (None: the
    task's); `holdout`: one problem in `holdout` is held out (None: no problem is)."""
    return partial(_register, TASKS, name, about)


def register_benchmark(name: str, about: str | None = None) -> Callable[[T], T]:
    """Return a decorator that registers a builder of a benchmark, as `register_task` does. The
    builder may have a parameter `data`: a file to use instead of the benchmark's data, or None."""
    return partial(_register, BENCHMARKS, name, about)


def _register(table: dict[str, Any], name: str, about: str | None, build: T) -> T:
    table[name] = build
    if about:
        build.__doc__ = about
    return build


def find_task(
    name: str,
    reward: str | None = None,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    holdout: int | None = HOLDOUT,
) -> Task:
    """Return the task of that name. If the name is that of a custom data set (`tasks.custom`),
    return a task with its problems; `columns` and `hub` say how to read them.

    `reward` names a verifier to use instead of the task's. `data` is a custom data set to use
    instead of the task's data, with the same columns or those that `columns` names. One problem in
    `holdout` of a custom data set is held out. UserError if there is no such task or data set."""
    verify = None if reward is None else find_verifier(reward)
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if is_custom(name):
        _refuse(f"{name} is itself a data set", {"data": data})
        return split_task(name, read_custom(name, columns, hub), verify, holdout)
    build = partial(gym_task, name) if is_gym(name) else _builder("task", name, TASKS)
    if data is None:
        _refuse(f"the task {name} has its own data", _set_keys(columns, hub))
        holdout = HOLDOUT
    arguments = {"data": data, "columns": columns, "hub": hub, "holdout": holdout}
    task = _build(name, build, Task, verify=verify, **arguments)
    return task if verify is None else replace(task, domain=replace(task.domain, verify=verify))


def builtin_task(model: str) -> Task | None:
    """Return the task that a model `builtin:NAME` was made for; None for any other model."""
    name = model.removeprefix("builtin:")
    return find_task(name) if name != model and name in TASKS else None


def find_benchmark(
    name: str,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    usual: ColumnSettings | None = None,
    reward: str | None = None,
) -> Benchmark:
    """Return the benchmark of that name; else a benchmark with the held-out problems of the task of
    that name, or with the problems of a custom data set (see `find_task`). `data` is a file that
    replaces the benchmark's data and has the same columns. For a custom data set, `usual` names
    columns to use if present, and `reward` the verifier. UserError if there is no such benchmark or
    data."""
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if is_custom(name):
        _refuse(f"{name} is itself a data set", {"data": data})
        verify = None if reward is None else find_verifier(reward)
        return listed(name, read_custom(name, columns, hub, "test", usual), verify)
    _refuse(f"the benchmark {name} has its own data", _set_keys(columns, hub))
    if is_gym(name) or (name in TASKS and name not in BENCHMARKS):
        task = find_task(name, data=data)
        size = len(task.held) or 512
        return Benchmark(
            task.name,
            task.domain,
            lambda n: task.heldout(n or size),
            source=task.source,
            notes=() if is_gym(name) else task.notes,  # gym's notes are about training
        )
    return _build(name, _builder("benchmark", name, BENCHMARKS), Benchmark, data=data)


def _set_keys(columns: ColumnSettings, hub: HubSettings) -> dict[str, str]:
    tables = (("columns", columns), ("hub", hub))
    return {f"{name}.{k}": v for name, table in tables for k, v in table if v is not None}


def _refuse(why: str, settings: Mapping[str, str | None]) -> None:
    """Raise UserError, with the reason `why`, if one of these settings is set."""
    for key, value in settings.items():
        if value is not None:
            raise UserError(
                f"{key} = {value} cannot be used: {why}.",
                f"leave {key} out, or use your own data: task=FILE",
            )


def _builder(kind: str, name: str, known: Mapping[str, Any]) -> Callable[..., Any]:
    if name in known:
        return known[name]
    if Path(name).exists():
        raise UserError(
            f"{name} is a file or folder that ictcli cannot read.",
            f"give {KINDS}, or a folder that `Dataset.save_to_disk` wrote",
        )
    more = f"the path of {KINDS}, a folder that `datasets` saved, hub:owner/name, or gym:NAME"
    raise unknown(kind, name, known, f"the {kind}s are: {', '.join(sorted(known))}, {more}")


def _build(name: str, build: Callable[..., Any], kind: type[R], **arguments: Any) -> R:
    """Call a builder with those arguments that are parameters of it. UserError if the user set
    `data`, `columns` or `hub` and the builder has no such parameter, or if it returns no `kind`."""
    parameters = inspect.signature(build).parameters
    for key in {"data", "columns", "hub"} - parameters.keys():
        if arguments.get(key) not in UNSET:
            _refuse(f"{name} has its own problems", {key: str(arguments[key])})
    built = build(**{key: value for key, value in arguments.items() if key in parameters})
    if not isinstance(built, kind):
        raise UserError(
            f"The builder of {name} returned {built!r:.80}, not a {kind.__name__}.",
            "docs/extending.md shows a builder",
        )
    return built


def named() -> list[dict[str, str]]:
    """Return rows (task, for, about) of all tasks and benchmarks: built-in ones, named data sets,
    those of plugins, and the usable generators of reasoning-gym, if it is installed."""
    uses = "train, evaluate"
    rows = [(name, uses, _about(build)) for name, build in TASKS.items()]
    rows += [(n, "evaluate", _about(build)) for n, build in BENCHMARKS.items() if n not in TASKS]
    if is_installed():
        from ictcli.rewards.gym import DATASETS, UNANSWERED, about  # takes seconds

        kinds = sorted(DATASETS.keys() - {*UNANSWERED})
        rows += [(f"{GYM}{kind}", uses, about(kind)) for kind in kinds]
    return [dict(zip(("task", "for", "about"), row, strict=True)) for row in rows]


def shown(name: str) -> dict[str, Any]:
    """Return the name, options and first held-out problem of a task or benchmark."""
    bench = find_benchmark(name)
    parts: dict[str, Any] = {"task": bench.name}
    if is_gym(name):
        from ictcli.rewards.gym import options_of

        kind, options = parted(name)
        parts["options"] = {**options_of(kind), **options}
    first = bench.problems(1)[0]
    return {**parts, "question": first.prompt, "answer": first.gold}


def _about(build: Any) -> str:
    return (inspect.getdoc(build) or "").partition("\n")[0]
