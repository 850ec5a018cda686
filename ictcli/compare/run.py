"""Carry out the plan of a comparison: tune, train, and write the report."""

from collections.abc import Callable, Sequence

from ictcli.compare.comparison import Comparison
from ictcli.compare.design import RunSpec, run_specs
from ictcli.compare.finished import check_began, read_all
from ictcli.compare.folder import GOES_ON
from ictcli.compare.gather import gather
from ictcli.compare.launch import Summaries
from ictcli.compare.plan import ComparisonPlan
from ictcli.compare.report import write_report
from ictcli.compare.tuning import chosen_of
from ictcli.errors import NothingFinishedError
from ictcli.files import write_json
from ictcli.tables.numbers import counted

Train = Callable[..., tuple[Summaries, list[str]]]
"""A function that trains runs: `launch.train_all` with every option set except `later`."""


def run_comparison(
    plan: ComparisonPlan, train: Train, say: Callable[[str], None], command: str
) -> Comparison:
    """Tune, train, and write comparison.json and the report."""
    check_began(plan.runs)
    failed: list[str] = []
    chosen, tuned = None, None
    if plan.tuning:

        def train_tries(specs: Sequence[RunSpec]) -> Summaries:
            check_began(specs)  # specs may hold values beyond the grid
            summaries, missed = train(specs, later=len(plan.final))
            failed.extend(missed)
            return summaries

        tuned = plan.tuning.tune(train_tries)
        chosen = chosen_of(tuned)
        say("tuned: " + "; ".join(f"{label} {override}" for label, override in chosen.items()))
        for label in [label for label in tuned if label not in chosen]:
            say(f"note: {label} is left out: none of its tuning runs finished")
    runs = run_specs(plan.design, chosen)
    summaries, missed = train(runs)
    check_began(runs)  # inputs may have changed during training
    done, damaged = read_all(runs, summaries)
    for line in damaged:
        say(f"failed: {line}")
    if not done:
        hint = f"fix the errors above; {GOES_ON}"
        raise NothingFinishedError("Every run of the comparison failed.", hint)
    say(f"comparing {counted(len(done), 'run')}")
    failed += [*missed, *damaged]
    result = gather(plan, runs, done, command=command, tuned=tuned or {}, failed=failed)
    say("writing the report")
    write_json(plan.design.folder / "comparison.json", result.model_dump(mode="json"))
    write_report(result, plan.design.folder)
    return result
