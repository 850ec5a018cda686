"""Evaluations of a run on held-out problems, before, during and after training."""

from collections.abc import Callable, Sequence

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError
from ictcli.evaluation.evaluate import evaluate
from ictcli.evaluation.record import Evaluation
from ictcli.evaluation.samples import SampleFile
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec
from ictcli.recipe import Recipe
from ictcli.runs import Run, manifest
from ictcli.runs.observer import Observer
from ictcli.runs.read import read_record
from ictcli.runs.records import StepMetrics
from ictcli.seeds import seed_of
from ictcli.tasks import Benchmark, Task
from ictcli.tasks.prepare import exam_of, heldout
from ictcli.text import command
from ictcli.train.health import hint_of
from ictcli.train.sample import sampling_of

ALONE = {
    "before": "before training",
    "step-000000": "after the supervised steps",
    "after": "after training",
}
"""When an evaluation is made before which no step is in flight."""


def known_evaluation(
    run: Run, recipe: Recipe, label: str, say: Callable[[str], None] = lambda text: None
) -> Evaluation | None:
    """Return an evaluation of the run, read from its file; None if that is missing, or damaged,
    which `say` reports."""
    path = run.folder / "eval" / f"{label}.json"
    evaluation = read_record(path, Evaluation, strict=False)
    if evaluation and all(f"pass@{k}" in evaluation.passes for k in recipe.eval.k):
        return evaluation
    if path.is_file():
        say(f"{path} is damaged; the evaluation is made again.")
    return None


def asks_greedily(recipe: Recipe, label: str) -> bool:
    """Return whether an evaluation asks each problem greedily too, for the end of a run."""
    usual = recipe.temperature if recipe.eval.temperature is None else recipe.eval.temperature
    return label in ALONE and usual != 0


def samples_of(recipe: Recipe, label: str) -> int:
    """Return the samples of each problem that an evaluation takes, at all temperatures."""
    return recipe.eval.n + asks_greedily(recipe, label)


def evaluate_heldout(
    run: Run,
    recipe: Recipe,
    task: Task,
    engine: Engine,
    observer: Observer,
    interrupted: Callable[[], bool],
    label: str,
) -> Evaluation:
    """Evaluate on held-out problems and write eval/LABEL.json. The seed is always the same, so that
    evaluations of a run, and of the runs it is compared with, are paired. InterruptedRunError if
    Ctrl-C comes while no step is in flight."""

    def progress(done: int, total: int) -> None:
        observer.evaluating(label, done, total)
        if interrupted() and label in ALONE:  # no step is in flight
            raise InterruptedRunError(
                f"Interrupted in the evaluation {ALONE[label]}; no step is lost.",
                command("resume", run.folder),
            )

    file = SampleFile(run.folder / "eval" / f"{label}.jsonl")
    others = (0.0,) * asks_greedily(recipe, label)
    names = [f"eval/{samples.path.name}" for samples in (file, *map(file.at, others))]
    manifest.leave(run.folder, *names)  # they are written as they come
    problems = heldout(recipe, task)
    benchmark = Benchmark(*exam_of(recipe, task), lambda _: problems)
    evaluation = evaluate(
        engine,
        BenchmarkSpec(benchmark, problems, recipe.max_tokens, label),
        EvaluationSettings(
            n=recipe.eval.n,
            k=recipe.eval.k,
            seed=seed_of(recipe.seed, "eval"),
            temperatures=others,
            plugins=recipe.plugins,
        ),
        task.prompt,
        sampling_of(recipe, engine, recipe.eval.temperature),
        file,
        progress,
        hint=hint_of(run.folder),
        warn=(lambda text: None) if label == "before" and task.sft else observer.warned,
    )
    run.write(f"eval/{label}.json", evaluation)
    manifest.enter(run.folder, *names)
    observer.evaluated(label, evaluation)
    return evaluation


def with_passes(metrics: StepMetrics, ks: Sequence[int], evaluation: Evaluation) -> StepMetrics:
    """Return metrics with the values of an evaluation, as eval/pass@k."""
    passes = {f"eval/pass@{k}": evaluation.passes[f"pass@{k}"].value for k in ks}
    return metrics.model_copy(update=passes)
