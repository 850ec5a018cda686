"""Train every method with every seed, as ordinary run folders; what is done is not done again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ictcli.console.plain import RunWatcher
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.launch import launch
from ictcli.recipe import Recipe, load_recipe
from ictcli.runs import Run, is_run


@dataclass(frozen=True)
class Member:
    """One run of a comparison."""

    method: str
    seed: int
    folder: Path
    recipe: Recipe


def members(
    source: str, overrides: Sequence[str], methods: Sequence[str], seeds: int, out: Path
) -> list[Member]:
    """Every run of a comparison: the same recipe but for the method and the seed.

    The seeds are the recipe's and the ones after it. Seeds come first, so that a comparison that
    is stopped has whole columns. Raises UserError where `out` holds runs of another recipe.
    """
    base = load_recipe(source, overrides)
    found: list[Member] = []
    for seed in range(base.seed, base.seed + seeds):
        for method in methods:
            # the recipe's own method keeps its options, another one starts from its defaults
            named = [] if method == base.rule.name else [f'method="{method}"']
            recipe = load_recipe(source, [*overrides, *named, f"seed={seed}"])
            folder = out / f"{method}-s{seed}"
            if is_run(folder) and load_recipe(folder / "recipe.toml") != recipe:
                raise UserError(
                    f"{folder} was trained with another recipe.",
                    f"--out OTHER takes another folder; rm -r {folder} trains that run again",
                )
            found.append(Member(method, seed, folder, recipe))
    return found


def train_all(
    runs: Sequence[Member],
    watcher: Callable[[Recipe, Path], AbstractContextManager[RunWatcher]],
    say: Callable[[str], None],
) -> tuple[dict[tuple[str, int], dict[str, Any]], list[str]]:
    """Summaries by (method, seed), and a line for each run that failed; the rest goes on."""
    summaries: dict[tuple[str, int], dict[str, Any]] = {}
    failed: list[str] = []
    for number, member in enumerate(runs, 1):
        place = f"run {number}/{len(runs)}: {member.method}, seed {member.seed}"
        fresh = not is_run(member.folder)
        if fresh:
            run = Run.create(member.folder, member.recipe)
        else:
            run, _ = Run.open(member.folder)
        with run:
            summary = run.read("summary.json")
            if summary is None:
                say(place + ("" if fresh else ", continued"))
                with watcher(member.recipe, member.folder) as watch:
                    try:
                        summary = launch(run, member.recipe, watch, watch.attach)
                    except RunFailedError as error:
                        failed.append(f"{place}: {error.message}")
                        say(failed[-1])
                        continue
                    except InterruptedRunError as error:
                        raise InterruptedRunError(
                            f"{place}. {error.message}", "the same command goes on from there"
                        ) from error
            else:
                say(place + ", finished before")
        summaries[member.method, member.seed] = summary
    return summaries, failed
