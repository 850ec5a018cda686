"""Carry plans out: tune, train, and write what was found."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ictcli.compare.comparison import Claim, Comparison
from ictcli.compare.design import RunSpec, run_specs
from ictcli.compare.finished import FinishedRun, check_began, name_of, read_all
from ictcli.compare.folder import GOES_ON, opened
from ictcli.compare.gather import gather
from ictcli.compare.judging import ClaimTest, judged
from ictcli.compare.launch import Summaries
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.report import write_report
from ictcli.compare.report.study import write_study
from ictcli.engine import build_engine
from ictcli.errors import NothingFinishedError
from ictcli.evaluation.record import Evaluation
from ictcli.files import write_json, write_text
from ictcli.tables.numbers import counted

Train = Callable[..., tuple[Summaries, list[str]]]
"""`launch.train_all` of runs, and of the number of those after them (`later`)."""
Say = Callable[[str], None]


def run_comparison(
    plan: ComparisonPlan, train: Train, say: Say, command: str
) -> tuple[Comparison, list[FinishedRun], list[ClaimTest]]:
    """Tune, train, and write comparison.json and the report; the comparison, the runs that it is
    of, and the tests that its claims on accuracy rest on."""
    check_began(plan.runs)
    failed: list[str] = []
    chosen, tuned = None, None
    if plan.tuning:

        def train_tries(specs: Sequence[RunSpec]) -> Summaries:
            check_began(specs)  # values beyond the grid, too
            summaries, missed = train(specs, later=len(plan.final))
            failed.extend(missed)
            return summaries

        plan.tuning.begin()
        tuned = plan.tuning.tune(train_tries)
        chosen = plan.tuning.chosen(tuned)
        say("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
        for label in [label for label in tuned if label not in chosen]:
            say(f"note: {label} is left out: none of its tuning runs finished")
    runs = run_specs(plan.design, chosen)
    summaries, missed = train(runs)
    check_began(runs)  # hours may lie between
    done, damaged = read_all(runs, summaries)
    for line in damaged:
        say(f"failed: {line}")
    if not done:
        raise NothingFinishedError("Every run of the comparison failed.", f"mend that: {GOES_ON}")
    say(f"Making the report of {counted(len(done), 'run')}.")
    result, tests = gather(
        plan,
        runs,
        done,
        build_engine(runs[0].recipe.model, runs[0].recipe.engine),
        command=command,
        tuned=tuned,
        failed=[*failed, *missed, *damaged],
    )
    write_json(plan.folder / "looks.json", plan.looks.to_json())
    write_json(plan.folder / "comparison.json", result.model_dump(mode="json"))
    (plan.folder / "report.json").unlink(missing_ok=True)  # an older version's
    write_report(result, plan.folder)
    return result, done, tests


def run_study(
    plans: Sequence[ComparisonPlan], folder: Path, train: Train, say: Say, command: str
) -> tuple[dict[str, Comparison], list[str]]:
    """One comparison after another, by recipe, and a sentence for each run that failed. The report
    of all is written once no comparison is left that an earlier command made."""
    results: dict[str, Comparison] = {}
    tests: dict[str, Sequence[ClaimTest]] = {}
    rows: list[dict[str, object]] = []
    failed: list[str] = []
    for number, plan in enumerate(plans, 1):
        name = plan.folder.name
        say(f"comparison {number}/{len(plans)}: {name}")
        try:
            with opened(plan.folder):
                result, done, of_accuracy = run_comparison(plan, train, say, command)
        except NothingFinishedError as error:
            if number == len(plans) and not results:
                raise
            failed.append(f"{name}: {error.message}")
            say(f"failed: {failed[-1]}")
        else:
            results[name], tests[name] = result, of_accuracy
            failed += [f"{name}: {line}" for line in result.failed]
            rows += run_rows(name, done)
        later = (each.folder / "comparison.json" for each in plans[number:])
        if results and not any(path.exists() for path in later):
            write_runs(folder / "runs.csv", rows)
            claims = study_claims(tests, min(result.level for result in results.values()))
            write_study(results, claims, folder, [each.folder.name for each in plans])
    return results, failed


def study_claims(
    tests: Mapping[str, Sequence[ClaimTest]], level: float
) -> dict[str, Sequence[Claim]]:
    """By recipe the claims of a study's main question, corrected over all of its recipes."""
    main = [(name, test) for name, its in tests.items() for test in its if test.family == "main"]
    claims = judged([test for _, test in main], level)
    return {
        recipe: [claim for (name, _), claim in zip(main, claims, strict=True) if name == recipe]
        for recipe in tests
    }


def run_rows(recipe: str, done: Sequence[FinishedRun]) -> list[dict[str, object]]:
    """A row for each run: shares are of 1, tokens kept those of the whole run, forks and the mean
    probability of its steps after any dense warm-up, seconds those of training."""
    return [
        {
            "recipe": recipe,
            "task": run.spec.recipe.task,
            "method": run.spec.variant.label,
            "model": name_of(run.spec.recipe.model),
            "seed": run.spec.seed,
            "lr": run.spec.recipe.lr,
            "steps": run.summary.steps,
            **{f"{name} before": each.value for name, each in run.summary.before.items()},
            **{name: each.value for name, each in run.summary.after.items()},
            "greedy before": _greedy(run.before),
            "greedy": _greedy(run.after),
            "unreadable answers": run.after.unparsed,
            "tokens kept": run.summary.tokens_kept_share,
            "forks kept": run.summary.kept_tokens.get("fork_recall"),
            "kept that fork": run.summary.kept_tokens.get("fork_precision"),
            "mean probability kept": run.summary.kept_tokens.get("kept_prob"),
            "seconds": run.summary.train_s,
        }
        for run in done
    ]


def _greedy(evaluation: Evaluation) -> float | None:
    right = evaluation.solved.get(0.0)
    return None if right is None else float(right.mean())


def write_runs(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """The rows as CSV, columns of any of them."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)))
    writer.writeheader()
    writer.writerows(rows)
    write_text(path, text.getvalue())
