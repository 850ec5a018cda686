"""Tasks and benchmarks by name, and what there is of them."""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ictcli.errors import UserError, unknown
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.recipe.generator import GYM, is_gym, parted
from ictcli.rewards import find_verifier
from ictcli.rows import KINDS
from ictcli.tasks.custom import is_custom, read_custom
from ictcli.tasks.gym import gym_task, is_installed
from ictcli.tasks.split import listed, split_task
from ictcli.tasks.task import Benchmark, Task

T = TypeVar("T", bound=Callable[..., Any])
TASKS: dict[str, Callable[..., Task]] = {}
BENCHMARKS: dict[str, Callable[..., Benchmark]] = {}


def register_task(name: str) -> Callable[[T], T]:
    """Decorator: register a function that builds a task; it is called when the task is used. Its
    parameters may include `data`, what to use in place of the task's data (or None: a file, a
    folder that `datasets` saved or `hub:owner/name`), `columns`, the names of its columns, `hub`,
    which part of it to use, and `verify`, the verifier to judge by (None: the task's own)."""

    return partial(_register, TASKS, name)


def register_benchmark(name: str) -> Callable[[T], T]:
    """Decorator: register a function that builds a benchmark; it is called when the benchmark is
    used. Its parameters may include `data`, a file to use in place of its data (or None)."""

    return partial(_register, BENCHMARKS, name)


def _register(table: dict[str, Any], name: str, build: T) -> T:
    table[name] = build
    return build


def find_task(
    name: str,
    reward: str | None = None,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    *,
    whole: bool = True,
) -> Task:
    """The task of that name, or over a custom data set, of which `columns` and `hub` say more
    (`tasks.custom`).

    `reward` names a verifier to use in place of the task's; `data` is a custom data set to use in
    place of the task's data, with its columns or those that `columns` names. `whole`: problems of a
    custom data set keep their rows. UserError if there is no such task, or no data."""
    verify = None if reward is None else find_verifier(reward)
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if is_custom(name):
        _refuse_data(f"The task {name} is a data set", data)
        return split_task(name, read_custom(name, columns, hub, whole=whole), verify)
    known = {**TASKS, name: partial(gym_task, name)} if is_gym(name) else TASKS
    takes = _parameters(known.get(name)) if data is not None else ()
    refused = ColumnSettings() if "columns" in takes else columns
    _check_name("task", name, known, refused, HubSettings() if "hub" in takes else hub)
    given = {"data": data, "verify": verify, "columns": columns, "hub": hub}
    task = _build("task", name, known[name], **given)
    return task if verify is None else replace(task, domain=replace(task.domain, verify=verify))


def builtin_task(model: str) -> Task | None:
    """The task that a model `builtin:NAME` was made for; None for any other model."""
    name = model.removeprefix("builtin:")
    return find_task(name) if name != model and name in TASKS else None


def find_benchmark(
    name: str,
    data: str | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    usual: ColumnSettings | None = None,
    *,
    whole: bool = True,
) -> Benchmark:
    """The benchmark of that name, the held-out part of the task of that name, or a benchmark over a
    custom data set, as for `find_task`. `data` is a file with the same columns to use in place of
    the benchmark's data, `usual` names columns of a custom data set where it has them, `whole` is
    as there. UserError if there is no such benchmark, or no data."""
    columns, hub = columns or ColumnSettings(), hub or HubSettings()
    if is_custom(name):
        _refuse_data(f"The benchmark {name} is a data set", data)
        return listed(name, read_custom(name, columns, hub, "test", usual, whole=whole))
    if is_gym(name) or (name in TASKS and name not in BENCHMARKS):
        _refuse_tables(f"the benchmark {name}", columns, hub)
        task = find_task(name, data=data)
        size = len(task.finite) or 512

        return Benchmark(
            task.name,
            task.domain,
            lambda n: task.heldout(n or size),
            source=task.source,
            notes=() if is_gym(name) else task.notes,  # those are of what is drawn to train on
        )
    _check_name("benchmark", name, BENCHMARKS, columns, hub)
    return _build("benchmark", name, BENCHMARKS[name], data=data)


def _parameters(build: Callable[..., Any] | None) -> Collection[str]:
    return inspect.signature(build).parameters if build else ()


def _build(kind: str, name: str, build: Callable[..., Any], **arguments: Any) -> Any:
    """Call a builder with those arguments it has parameters for; `data` must be one, if set."""
    parameters = _parameters(build)
    if "data" not in parameters:
        _refuse_data(f"The {kind} {name} makes its own problems", arguments["data"])
    made = build(**{key: value for key, value in arguments.items() if key in parameters})
    wanted = Task if kind == "task" else Benchmark
    if not isinstance(made, wanted):
        raise UserError(
            f"The builder of the {kind} {name} gave {made!r:.80}, which is no {wanted.__name__}.",
            "docs/extending.md shows one",
        )
    return made


def _check_name(
    kind: str, name: str, known: Mapping[str, Any], columns: ColumnSettings, hub: HubSettings
) -> None:
    """UserError if the name is unknown, or the tables, meant for custom data sets, are set."""
    if name in known:
        _refuse_tables(f"the {kind} {name}", columns, hub)
        return
    if Path(name).exists():
        what = "folder" if Path(name).is_dir() else "file"
        raise UserError(
            f"{name} is a {what} of a kind that is not read.",
            f"{KINDS} is, and a folder of `save_to_disk` of datasets",
        )
    more = f"the path of {KINDS}, a folder of `save_to_disk`, hub:owner/name, or gym:NAME"
    raise unknown(kind, name, known, f"the {kind}s are: {', '.join(sorted(known))}, {more}")


def _refuse_data(why: str, data: str | None) -> None:
    if data is not None:
        raise UserError(f"{why}; {data} cannot stand in for it.", "leave the data file out")


def _refuse_tables(what: str, columns: ColumnSettings, hub: HubSettings) -> None:
    for table, settings in (("columns", columns), ("hub", hub)):
        for key in settings.model_dump(exclude_none=True):
            raise UserError(
                f"{table}.{key} is for custom data sets, and {what} has its own.",
                "task=FILE in place of data=FILE takes it, or leave the key out",
            )


def named() -> list[dict[str, str]]:
    """Built-in tasks, data sets known by name, those of plugins, and the generators of
    reasoning-gym that make a task, if it is installed: each as task, for and about."""
    both = "train, evaluate"
    rows = [(name, both, _about(build)) for name, build in TASKS.items()]
    rows += [(n, "evaluate", _about(build)) for n, build in BENCHMARKS.items() if n not in TASKS]
    if is_installed():
        from ictcli.rewards.gym import DATASETS, UNANSWERED, about  # takes seconds

        kinds = sorted(DATASETS.keys() - {*UNANSWERED})
        rows += [(f"{GYM}{kind}", both, about(kind)) for kind in kinds]
    return [dict(zip(("task", "for", "about"), row, strict=True)) for row in rows]


def shown(name: str) -> dict[str, Any]:
    """A task or benchmark in parts: options with their values, verifier, first held-out problem."""
    bench = find_benchmark(name)
    parts: dict[str, Any] = {"task": bench.name}
    if is_gym(name):
        from ictcli.rewards.gym import options_of

        kind, options = parted(name)
        parts["options"] = {**options_of(kind), **options}
    first = bench.problems(1)[0]
    return {**parts, "question": first.prompt, "answer": first.gold}


def _about(build: Any) -> str:
    function = build.func if isinstance(build, partial) else build
    return (inspect.getdoc(function) or "").partition("\n")[0]
