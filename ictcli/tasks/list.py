"""What there is to train and to evaluate on, by name."""

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

from ictcli.recipe.generator import GYM, is_gym, parted
from ictcli.tasks.gym import is_installed
from ictcli.tasks.registry import BENCHMARKS, TASKS, find_benchmark


@dataclass(frozen=True)
class Named:
    """A task or benchmark."""

    name: str
    use: str
    """train, evaluate, or both."""
    about: str


def named() -> list[Named]:
    """Built-in tasks, data sets known by name, those of plugins, and the generators of
    reasoning-gym that make a task, if it is installed."""
    both = "train, evaluate"
    rows = [Named(name, both, _about(build)) for name, build in TASKS.items()]
    rows += [Named(n, "evaluate", _about(b)) for n, b in BENCHMARKS.items() if n not in TASKS]
    if is_installed():
        from ictcli.rewards.gym import DATASETS, UNANSWERED, about  # takes seconds

        kinds = sorted(DATASETS.keys() - {*UNANSWERED})
        rows += [Named(f"{GYM}{kind}", both, about(kind)) for kind in kinds]
    return rows


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
    """The first line of a builder's docstring."""
    function = build.func if isinstance(build, partial) else build
    return (inspect.getdoc(function) or "").partition("\n")[0]
