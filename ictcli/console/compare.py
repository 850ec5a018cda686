"""What `ictcli compare` prints: the plan, what tuning chose, and the result."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ictcli.compare.claims import Claim
from ictcli.compare.comparison import Comparison
from ictcli.compare.gradients import Attribution
from ictcli.compare.numbers import MINUS, counted, listed, points
from ictcli.compare.shared_rollouts import ForkComparison
from ictcli.compare.statistics import Estimate, PairedDifference
from ictcli.compare.time_estimate import ComparisonEstimate, RunEstimate
from ictcli.compare.variants import STOPPED
from ictcli.console.plain import narrate, narrate_paragraph
from ictcli.console.table import print_columns, print_json
from ictcli.text import duration, figure

RUN_COLUMNS: dict[str, Callable[[RunEstimate], str]] = {
    "run": lambda run: str(run.folder),
    "method": lambda run: run.label,
    "seed": lambda run: str(run.seed),
    "steps": lambda run: str(run.steps),
    "lr": lambda run: "by tuning" if run.lr is None else f"{run.lr:g}",
    "time": lambda run: "finished" if run.finished else duration(run.seconds),
    "MiB": lambda run: "" if run.finished else f"{run.bytes / 2**20:,.0f}",
}


def planned(estimate: ComparisonEstimate, jobs: int, *, as_json: bool) -> None:
    """The runs with what each will take alone, and what all of them will, as a table or JSON."""
    if as_json:
        print_json({"jobs": jobs, **estimate.model_dump(mode="json")})
        return
    print_columns(estimate.runs, RUN_COLUMNS)
    if not estimate.left:
        narrate(f"{len(estimate.runs)} runs, all of them finished.")
        return
    at_once = f", {estimate.at_once} at a time" if estimate.at_once > 1 else ""
    if estimate.at_once < jobs:
        at_once += f" (--jobs {jobs} asks for more than there are cores for)"
    kinds = len(estimate.measured)
    of_each = "one run" if kinds == 1 else f"{kinds} kinds of run"
    narrate_paragraph(
        f"{len(estimate.runs)} runs, {estimate.left} of them to do: about "
        f"{duration(estimate.seconds)}{at_once}, and {estimate.bytes / 2**20:,.0f} MiB of disk; "
        f"from steps of {of_each}, timed now.",
    )


def tuned_to(chosen: Mapping[str, str], lost: Sequence[str]) -> None:
    """Which value each variant goes on with, and which go no further."""
    narrate("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
    for label in lost:
        narrate(f"note: {label} is left out: none of its tuning runs finished")


VERDICT_COLUMNS: dict[str, Callable[[Claim], str]] = {
    "verdict": lambda claim: claim.verdict,
    "claim": lambda claim: "; ".join([claim.name, *claim.caveats]),
}
FORK_COLUMNS: dict[str, Callable[[ForkComparison], str]] = {
    "method": lambda row: row.method,
    "share": lambda row: _share(row.own.share),
    "recall (random)": lambda row: f"{row.own.recall:.3f} ({row.random_at_own.recall:.3f})",
    "precision (random)": lambda row: (
        f"{row.own.precision:.3f} ({row.random_at_own.precision:.3f})"
    ),
}


def comparison(result: Comparison, folder: Path, *, as_json: bool) -> None:
    """A comparison as JSON, or as tables: what was reached, what was kept, and the answer: the
    differences from the baseline and the verdicts."""
    if as_json:
        print_json(result.model_dump(mode="json"))
        return
    print_columns(list(next(iter(result.estimates.values()))), _summary_columns(result))
    seeds = len(result.seeds)
    over = "seeds and problems" if seeds > 1 else "problems: one seed says nothing of others"
    narrate_paragraph(
        f"means with 95 % intervals over {over}; forks: recall and precision while training, "
        "behind the dense warm-up.",
    )
    narrate("")
    if result.forks:
        print_columns(result.forks, FORK_COLUMNS)
        narrate_paragraph(
            "true forks kept, on the same rollouts of the model before training, beside as many "
            "random tokens",
        )
        narrate("")
    _gradient(result)
    for line in result.failed:
        narrate(f"failed: {line}")
    for line in result.notes:
        narrate(f"note: {line}")
    _answer(result)
    narrate(f"runs: {folder}", f"report: {folder / 'report.html'}")


def _gradient(result: Comparison) -> None:
    """Where each method's gradient goes."""
    found = result.attribution
    if not found:
        return
    kinds = dict.fromkeys(share.kind for each in found.values() for share in each.shares)
    columns: dict[str, Callable[[str], str]] = {"gradient on": str}
    columns |= {f"{kind} + {MINUS}": _both_signs(found, kind) for kind in kinds}
    about = f"% of the gradient, on tokens made likelier + and less likely {MINUS}"
    if any(each.towards_right for each in found.values()):
        columns |= {"towards right": lambda label: _net(found[label])}
        about += "; towards right: the net share that favours right choices"
    print_columns(list(found), columns)
    narrate_paragraph(about)
    narrate("")


def _both_signs(found: Mapping[str, Attribution], kind: str) -> Callable[[str], str]:
    def cell(label: str) -> str:
        shares = (found[label].share(kind, raised=raised) for raised in (True, False))
        return "  ".join(f"{100 * each.share.value:.1f}" for each in shares if each)

    return cell


def _net(row: Attribution) -> str:
    return points(row.towards_right.value) if row.towards_right else ""


def _answer(result: Comparison) -> None:
    """The differences from the baseline, and a line for each verdict."""
    rows = dict.fromkeys(label for by_label in result.differences.values() for label in by_label)
    if rows:
        print_columns(list(rows), _difference_columns(result))
        told = "* is told from 0 at 5 % after Holm's correction"
        base = result.baseline
        narrate_paragraph(f"differences from {base} in points, with 95 % intervals; {told}")
        narrate("")
    if beyond := result.differences_from_stopped:
        rows = list(next(iter(beyond.values())))
        print_columns(rows, {f"minus {STOPPED}": str, **_metric_columns(beyond)})
        narrate_paragraph("what the steps behind the dense warm-up added, in points")
        narrate("")
    if result.claims:
        print_columns(result.claims, VERDICT_COLUMNS)
        at = f"{counted(len(result.seeds), 'seed')} and {counted(result.problems, 'problem')}"
        narrate_paragraph(
            f"verdicts on {result.task} at {at}; undecided is no evidence that there is no "
            "difference"
        )
        narrate("")


def _difference_columns(result: Comparison) -> dict[str, Callable[[str], str]]:
    return {
        f"minus {result.baseline}": str,
        **_metric_columns(result.differences),
        **_metric_columns(result.differences_without_crashed, ", none crashed"),
    }


def _metric_columns(
    differences: Mapping[str, Mapping[str, PairedDifference]], which: str = ""
) -> dict[str, Callable[[str], str]]:
    def column(by_label: Mapping[str, PairedDifference]) -> Callable[[str], str]:
        return lambda label: _points(by_label.get(label))

    return {metric + which: column(by_label) for metric, by_label in differences.items()}


def _points(row: PairedDifference | None) -> str:
    if row is None:
        return ""
    value = points(row.value)
    if row.low is None or row.high is None:
        return value
    return f"{value} [{points(row.low)}, {points(row.high)}]{' *' * row.differs}"


def _summary_columns(result: Comparison) -> dict[str, Callable[[str], str]]:
    """A row a variant, by its label; the model before training has neither tokens nor time."""
    first = next(iter(result.estimates.values()))

    def trained(name: str) -> Callable[[str], str]:
        return lambda label: _share(getattr(result.training.get(label), name, None))

    def seconds(label: str) -> str:
        cost = result.cost.get(label)
        return figure(cost.seconds_per_step if cost else None, ".2f")

    def reached(by_label: Mapping[str, Estimate]) -> Callable[[str], str]:
        return lambda label: _interval(by_label[label])

    forks = {"forks kept": trained("fork_recall"), "kept that fork": trained("fork_precision")}
    return {
        "method": str,
        "seeds": lambda label: str(first[label].seeds),
        **{metric: reached(by_label) for metric, by_label in result.estimates.items()},
        "tokens kept": trained("tokens_kept_share"),
        **(forks if any(one.fork_recall is not None for one in result.training.values()) else {}),
        "s/step": seconds,
    }


def _interval(estimate: Estimate) -> str:
    value, low, high = estimate.value, estimate.low, estimate.high
    return f"{value:.3f}" if low is None or high is None else f"{value:.3f} [{low:.3f}, {high:.3f}]"


def _share(share: float | None) -> str:
    return figure(share, ".1%")


def studied(
    results: Mapping[str, Comparison], failed: Sequence[str], folder: Path, *, as_json: bool
) -> None:
    """A study as JSON, by recipe, or as one table: the first metric of each recipe by rule."""
    if as_json:
        print_json({name: result.model_dump(mode="json") for name, result in results.items()})
        return
    estimates = {name: next(iter(result.estimates.items())) for name, result in results.items()}
    labels = dict.fromkeys(label for _, by_label in estimates.values() for label in by_label)

    def reached(by_label: Mapping[str, Estimate]) -> Callable[[str], str]:
        return lambda label: _interval(by_label[label]) if label in by_label else ""

    metrics = list(dict.fromkeys(metric for metric, _ in estimates.values()))
    columns: dict[str, Callable[[str], str]] = {"method": str}
    for name, (metric, by_label) in estimates.items():
        columns[name if len(metrics) == 1 else f"{name} {metric}"] = reached(by_label)
    print_columns(list(labels), columns)
    narrate_paragraph(f"{listed(metrics)} after training, with 95 % intervals")
    for line in failed:
        narrate(f"failed: {line}")
    narrate(f"runs: {folder / 'runs.csv'}", f"report: {folder / 'report.html'}")
