"""What a run is judged by: evaluations on held-out problems, and the summary at its end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ictcli.engine import Engine
from ictcli.evaluation.evaluate import evaluate
from ictcli.files import new_folder
from ictcli.recipe import Recipe
from ictcli.runs import FORMAT, Run, checkpoints, damaged
from ictcli.runs.checkpoints import State
from ictcli.seeds import seed_of
from ictcli.tasks import Task
from ictcli.tasks.prepare import heldout
from ictcli.train.step import sampling_of

KEPT_FIGURES = (
    "share_kept",
    "kept_prob",
    "regime_high",
    "regime_low",
    "high_low_ratio",
    "fork_share",
    "fork_recall",
    "fork_precision",
)


BEFORE = "eval/before.json"
SHOWN = (
    *("task", "before", "after", "problems", "samples_per_problem", "steps", "wall_s"),
    *("tokens_sampled", "tokens_kept_share", "kept_tokens"),
)
"""What a summary is shown by."""


def known_before(
    run: Run, recipe: Recipe, say: Callable[[str], None] = lambda text: None
) -> dict[str, Any] | None:
    """The evaluation from before the first step; None where it is not there, or is damaged, which
    is told to `say`. It is to be made then before a checkpoint is restored."""
    path = run.folder / BEFORE
    if not path.is_file():
        return None
    wanted = ("seconds", "problems", "n", *(f"pass@{k}" for k in recipe.eval.k))
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and all(name in found for name in wanted):
            return cast(dict[str, Any], found)
    except ValueError:
        pass
    say(f"{path} is damaged; the evaluation is made again.")
    return None


def evaluation(
    run: Run,
    recipe: Recipe,
    engine: Engine,
    task: Task,
    label: str,
    progress: Callable[[int, int], None],
) -> dict[str, Any]:
    """Evaluate on held-out problems, always with the same seed, so that evaluations of a run and
    of its rivals are paired. What stands in the folder from before the first step is used again."""
    name = f"eval/{label}.json"
    known = known_before(run, recipe) if label == "before" else None
    if known is None:
        problems = heldout(recipe, task)
        examined, domain = task.examined or (task.name, task.domain)
        found = evaluate(
            engine,
            examined,
            problems,
            domain,
            sampling_of(recipe, engine, recipe.eval.temperature),
            recipe.prompt,
            n=recipe.eval.n,
            ks=recipe.eval.k,
            seed=seed_of(recipe.seed, "eval"),
            samples=run.folder / "eval" / f"{label}.jsonl",
            progress=progress,
        )
        known = found.model_dump(mode="json")
        run.write(name, known)
    return known


def kept_tokens(run: Run, recipe: Recipe) -> dict[str, float]:
    """Which tokens were trained: means over the steps behind the dense warm-up (see `dynamics`)."""
    warmup = recipe.warmup if recipe.rule.dense_warmup else 0
    return run.means(KEPT_FIGURES, after=warmup if recipe.steps > warmup else 0)


def made_of(run: Path, recipe: Recipe) -> Path:
    """Where a finished run has its model, or its adapters where nothing else was trained."""
    return run / ("adapter" if recipe.adapters else "model")


def export(run: Path, recipe: Recipe, engine: Engine) -> Path:
    made = made_of(run, recipe)
    with new_folder(made) as folder:
        if recipe.adapters:
            engine.export_adapter(folder)
        else:
            engine.export(folder)
    return made


def finished(run: Run, recipe: Recipe, say: Callable[[str], None]) -> dict[str, Any] | None:
    """The summary of a finished run with its model where that lies now; None where there is none
    yet. A model or adapter that was lost is exported again from the checkpoint of the last step.
    UserError where the summary is damaged, or that checkpoint is lost too."""
    summary = run.read("summary.json")
    if summary is None:
        return None
    if not all(name in summary for name in SHOWN):
        raise damaged(run.folder / "summary.json")
    made = made_of(run.folder, recipe)
    if not made.is_dir():
        path = checkpoints.pick(run.folder, str(summary["steps"]))
        say(f"{made} is missing: it is made again from {path}.")
        export(run.folder, recipe, checkpoints.engine_at(run.folder, path, recipe.engine))
    return {**summary, "model": str(made)}


def finish(
    run: Run,
    recipe: Recipe,
    engine: Engine,
    state: State,
    before: dict[str, Any],
    after: dict[str, Any],
) -> dict[str, Any]:
    """Export the model, or the adapters where nothing else was trained, and write the summary."""
    made = export(run.folder, recipe, engine)
    summary: dict[str, Any] = {
        "format": FORMAT,
        "task": recipe.task,
        "method": recipe.rule.name,
        "seed": recipe.seed,
        "steps": state.step,
        "before": {f"pass@{k}": before[f"pass@{k}"] for k in recipe.eval.k},
        "after": {f"pass@{k}": after[f"pass@{k}"] for k in recipe.eval.k},
        "problems": after["problems"],
        "samples_per_problem": after["n"],
        "wall_s": round(state.wall_s + before["seconds"] + after["seconds"], 2),
        "train_s": round(state.train_s, 2),
        "tokens_sampled": state.tokens_sampled,
        "tokens_kept_share": state.tokens_kept / max(state.tokens_sampled, 1),
        "kept_tokens": kept_tokens(run, recipe),
        "steps_skipped": state.skipped,
        "peak_bytes": engine.peak_memory(),
        "model": str(made),
    }
    if recipe.checkpoint.best:
        summary["best"] = {
            "metric": state.best_metric,
            "step": state.best_step,
            "value": state.best_value,
        }
    run.write("summary.json", summary)
    return summary
