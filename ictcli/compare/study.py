"""A study: one comparison on several recipes, as a file. `ictcli compare study` runs the one that
ships.

| path below the study's folder | is |
|---|---|
| RECIPE/ | the comparison on that recipe: see `ictcli.compare.folder` |
| runs.csv | a row for each run of each: see `run_rows` |
| report.html, report.md | what all of them found, side by side |
"""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from ictcli.compare.finished import FinishedRun
from ictcli.errors import UserError
from ictcli.files import write_text
from ictcli.files.reading import parse_toml
from ictcli.recipe import find_recipe, shipped_studies
from ictcli.recipe.load import recipe_text, validate
from ictcli.recipe.tables import Table
from ictcli.runs.trust import is_of_run


class CompareOptions(Table):
    """The options of `ictcli compare` that decide which runs it is made of."""

    methods: tuple[str, ...] = Field(min_length=1, strict=False)
    seeds: int = Field(default=3, ge=1)
    sweep: tuple[str, ...] = Field(default=(), strict=False)
    tune: str | None = None
    baseline: str = "grpo"
    stop_after_warmup: bool = False


class Study(CompareOptions):
    """Recipes to compare methods on, all with the same options."""

    recipes: tuple[str, ...] = Field(min_length=1, strict=False)
    settings: tuple[str, ...] = Field(default=(), strict=False)
    """Overrides, KEY=VALUE, of every recipe."""


def read_study(source: str) -> Study | None:
    """The study of this name or path; None if it is something else, a recipe say, or in a run's
    folder, where none belongs. UserError if anything in it is wrong."""
    path = shipped_studies().get(source, Path(source))
    if path.suffix != ".toml" or not path.is_file() or is_of_run(path):
        return None
    try:
        data = parse_toml(recipe_text(path))
    except ValueError:
        return None  # the recipe's reader says so
    if "recipes" not in data:
        return None
    study = validate(Study, data, str(path), hint="ictcli recipes show study")
    beside = tuple(
        str(path.parent / name) if name.endswith(".toml") else name for name in study.recipes
    )
    study = study.model_copy(update={"recipes": beside})
    names = [find_recipe(name).stem for name in study.recipes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UserError(f"{path} names {twice} twice.", "name each recipe once")
    return study


def run_rows(recipe: str, done: Sequence[FinishedRun]) -> list[dict[str, object]]:
    """A row for each run: shares are of 1, tokens kept those of the whole run, forks and the mean
    probability of its steps after any dense warm-up, seconds those of training."""
    return [
        {
            "recipe": recipe,
            "task": run.spec.recipe.task,
            "method": run.label,
            "seed": run.spec.seed,
            "lr": run.spec.recipe.lr,
            "steps": run.summary.steps,
            **{f"{name} before": each.value for name, each in run.summary.before.items()},
            **{name: each.value for name, each in run.summary.after.items()},
            "unreadable answers": run.after.unparsed,
            "tokens kept": run.summary.tokens_kept_share,
            "forks kept": run.summary.kept_tokens.get("fork_recall"),
            "kept that fork": run.summary.kept_tokens.get("fork_precision"),
            "mean probability kept": run.summary.kept_tokens.get("kept_prob"),
            "seconds": run.summary.train_s,
        }
        for run in done
    ]


def write_runs(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """The rows as CSV, columns of any of them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
