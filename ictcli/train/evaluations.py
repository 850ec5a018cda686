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
"""Labels of evaluations that Ctrl-C stops at once, since no training step is in progress, and
their names in messages."""


def known_evaluation(
    run: Run, recipe: Recipe, label: str, say: Callable[[str], None] = lambda text: None
) -> Evaluation | None:
    """Return an evaluation of the run from its file; None if the file is missing or damaged. `say`
    gets a sentence on a damaged file."""
    path = run.folder / "eval" / f"{label}.json"
    evaluation = read_record(path, Evaluation, strict=False)
    if evaluation and all(f"pass@{k}" in evaluation.passes for k in recipe.eval.k):
        return evaluation
    if path.is_file():
        say(f"{path} is damaged; the evaluation is repeated.")
    return None


def asks_greedily(recipe: Recipe, label: str) -> bool:
    """Return whether an evaluation also samples each problem greedily, for summary.json."""
    usual = recipe.temperature if recipe.eval.temperature is None else recipe.eval.temperature
    return label in ALONE and usual != 0


def samples_of(recipe: Recipe, label: str) -> int:
    """Return the number of samples per problem in an evaluation, over all temperatures."""
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
    """Evaluate on held-out problems, and write eval/LABEL.json. All evaluations of a run use the
    same random seed, so that they can be paired. InterruptedRunError after Ctrl-C, if no training
    step is in progress."""

    def progress(done: int, total: int) -> None:
        observer.evaluating(label, done, total)
        if interrupted() and label in ALONE:
            raise InterruptedRunError(
                f"Interrupted during the evaluation {ALONE[label]}; no step is lost.",
                command("resume", run.folder),
            )

    file = SampleFile(run.folder / "eval" / f"{label}.jsonl")
    greedy = (0.0,) * asks_greedily(recipe, label)
    names = [f"eval/{samples.path.name}" for samples in (file, *map(file.at, greedy))]
    manifest.leave(run.folder, *names)  # samples are written as they are finished
    problems = heldout(recipe, task)
    benchmark = Benchmark(*exam_of(recipe, task), lambda _: problems)
    evaluation = evaluate(
        engine,
        BenchmarkSpec(benchmark, problems, recipe.max_tokens, label),
        EvaluationSettings(
            n=recipe.eval.n,
            k=recipe.eval.k,
            seed=seed_of(recipe.seed, "eval"),
            temperatures=greedy,
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
    """Return metrics with the pass@k of an evaluation added as eval/pass@k."""
    passes = {f"eval/pass@{k}": evaluation.passes[f"pass@{k}"].value for k in ks}
    return metrics.model_copy(update=passes)
