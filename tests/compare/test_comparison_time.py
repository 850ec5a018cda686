"""How long a comparison takes, before it begins."""

from pathlib import Path

import pytest
from small_runs import design_of, timed

from ictcli.compare.design import run_specs
from ictcli.compare.time_estimate import estimate_comparison, kind, measure_all


def test_it_adds_up_what_is_left_each_run_by_its_own_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runs that are finished are not timed."""
    runs, steps = run_specs(design_of(tmp_path)), {"ict": 2.0, "grpo": 3.0, "random": 5.0}
    patched = "ictcli.compare.time_estimate.measure"
    monkeypatch.setattr(patched, lambda recipe: timed(steps[recipe.rule.name]))
    measured = measure_all(runs, print)
    assert len(measured) == 3  # seeds are of one kind
    asked = 2 * 512 * 0.01
    alone = {label: 1.0 + 4 * step + asked for label, step in steps.items()}
    whole = estimate_comparison(runs, measured, 1, cores=8)
    assert (len(whole.runs), whole.at_once) == (6, 1)
    assert whole.seconds == pytest.approx(2 * sum(alone.values()))
    runs[0].folder.mkdir()
    (runs[0].folder / "summary.json").write_text("{}")
    left = estimate_comparison(runs, measured, 1, cores=8)
    assert left.runs[0].finished and left.seconds == pytest.approx(whole.seconds - alone["ict"])
    (runs[1].folder / "checkpoints" / "step-000003").mkdir(parents=True)
    continued = estimate_comparison(runs, measured, 1, cores=8)
    assert continued.seconds == pytest.approx(left.seconds - 3 * 3.0 - asked / 2)
    runs[3].folder.mkdir()
    (runs[3].folder / "summary.json").write_text("{}")
    assert set(measure_all(runs, print)) == {kind(run.recipe) for run in runs[1:3]}  # not of ict


@pytest.mark.parametrize(
    ("jobs", "cores", "threads", "at_once"),
    [(3, 2, 1, 2), (2, 8, 1, 2), (64, 1, 1, 1), (4, 8, 8, 1), (4, 8, 2, 4)],
)
def test_no_more_runs_at_once_than_cores(
    tmp_path: Path, jobs: int, cores: int, threads: int, at_once: int
) -> None:
    runs = [spec.with_threads(threads) for spec in run_specs(design_of(tmp_path, seeds=4))]
    measured = {kind(run.recipe): timed(1.0) for run in runs}
    estimate = estimate_comparison(runs, measured, jobs, cores=cores)
    assert estimate.at_once == at_once
    assert estimate.seconds == pytest.approx(len(runs) * (1.0 + 4.0 + 10.24) / at_once)
