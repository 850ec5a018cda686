"""What accuracy costs: laws of its figures, and what becomes of runs that lack something."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_runs import finished_run, small_design

from ictcli.compare.design import run_specs
from ictcli.compare.efficiency import (
    AREA,
    AT_BUDGET,
    CPU,
    REACHED,
    ROLLOUTS,
    TO_THRESHOLD,
    Efficiency,
    efficiency,
    figures,
    threshold_of,
    window,
)
from ictcli.compare.finished import FinishedRun, by_variant
from ictcli.compare.run_means import smoothed
from ictcli.engine.shape import QWEN2
from ictcli.recipe.tables import RolloutSettings
from ictcli.runs.records import StepMetrics, StepTimings
from tests.cases import first

QWEN = {"Q": QWEN2["qwen2.5-0.5b"]}
SHAPES = first([(10, 8, 3), (30, 4, 1), (30, 8, 3), (60, 8, 3), (200, 8, 3)], 2)
"""Steps, prompts and seeds."""
courses = st.lists(st.tuples(st.floats(0, 1), st.floats(0.1, 9)), min_size=1, max_size=30)


@given(courses, st.floats(0.05, 1), st.floats(0.1, 1), st.floats(0.01, 100))
def test_figures_do_not_depend_on_the_unit(
    course: list[tuple[float, float]], part: float, threshold: float, scale: float
) -> None:
    correct, steps = np.array(course).T
    spent, width = steps.cumsum(), window(len(steps))
    budget = part * spent[-1]
    some = figures(correct, spent, budget, width, threshold)
    other = figures(correct, scale * spent, scale * budget, width, threshold)
    assert other.pop(TO_THRESHOLD) == pytest.approx(scale * some.pop(TO_THRESHOLD), rel=1e-6)
    assert other == pytest.approx(some, abs=1e-9)
    assert correct.min() - 1e-9 <= some[AREA] <= correct.max() + 1e-9


def test_a_run_that_does_not_reach_the_threshold_counts_with_the_budget() -> None:
    correct, spent = np.linspace(0, 0.9, 10), np.arange(1.0, 11.0)
    reached = {AREA: pytest.approx(0.45), AT_BUDGET: pytest.approx(0.9)}
    assert figures(correct, spent, 10, 1, 0.45) == {REACHED: 1, TO_THRESHOLD: 6, **reached}
    assert figures(correct, spent, 10, 1, 0.95) == {REACHED: 0, TO_THRESHOLD: 10, **reached}
    assert figures(correct, spent, 5, 1, 0.45)[REACHED] == 0
    assert figures(correct, spent, 10, 1, None) == reached


@pytest.mark.parametrize(("steps", "prompts", "seeds"), SHAPES)
def test_runs_without_a_trend_have_no_threshold(steps: int, prompts: int, seeds: int) -> None:
    """In most comparisons; with one, most have it. Prompts are very easy or very hard, of groups of
    8."""
    rng, found = np.random.default_rng(0), {0.0: 0, 0.8: 0}
    for rise in found:
        for _ in range(200):
            p = rng.beta(0.5, 0.5, (steps, prompts, seeds))
            p += (1 - p) * rise * np.linspace(0, 1, steps)[:, None, None]
            correct = rng.binomial(8, p).mean(axis=(1, 2)) / 8
            found[rise] += threshold_of(correct, window(steps)) is not None
    assert found[0.0] <= 10 and found[0.8] >= 80


@given(st.lists(st.floats(0, 1), min_size=1, max_size=99), st.integers(0, 9))
def test_smoothing_keeps_a_line_and_stays_within(values: list[float], half: int) -> None:
    y, width = np.array(values), 1 + 2 * min(half, (len(values) - 1) // 2)
    smooth = smoothed(y, width)
    assert len(smooth) == len(y)
    assert (y.min() - 1e-9 <= smooth).all() and (smooth <= y.max() + 1e-9).all()
    inner = slice(width // 2, len(y) - width // 2)
    line = np.arange(len(y), dtype=float)
    assert smoothed(line, width)[inner] == pytest.approx(line[inner])


LEARNS = (0.1, 0.2, 0.4, 0.7, 0.9)
CPU_OF = {"ict": 1.0, "grpo": 2.0, "random": 2.0}
KEPT = {"ict": 0.1, "grpo": 1.0, "random": 0.1}


def of_runs(
    folder: Path,
    correct: Sequence[float | None] = LEARNS,
    cpu: Mapping[str, float | None] = CPU_OF,
    redrawn: Mapping[str, float] = {},
) -> Efficiency | None:
    """Of two seeds of ict, grpo and random, all with this share of correct rollouts; of some, with
    so many rollouts of prompts drawn again in each step."""

    def run(number: int) -> FinishedRun:
        spec = specs[number]
        label, steps = spec.variant.label, range(1, len(correct) + 1)
        if again := redrawn.get(label):
            drawn = spec.recipe.model_copy(update={"sampling": RolloutSettings(redraw=2)})
            spec = replace(spec, recipe=drawn)
        more = {"length": 100.0, "groups_with_signal": 1.0, "redrawn": again}
        more["share_kept"] = KEPT[label]
        half = None if (seconds := cpu[label]) is None else seconds / 2
        spent = {"sample_cpu_s": half, "update_cpu_s": half, "sample_s": 1.0, "update_s": 1.0}
        lines = ({"step": s, "correct": correct[s - 1], **more} for s in steps)
        metrics = [StepMetrics.model_validate(line) for line in lines]
        timings = [StepTimings(step=s, **spent) for s in steps]
        return finished_run(spec, metrics, timings, steps=len(correct))

    design = small_design(folder)
    specs = run_specs(design)
    variants = by_variant(design.variants, [run(number) for number in range(len(specs))])
    return efficiency(variants, "grpo", [0, 1], 30.0, QWEN)


def test_alike_runs_differ_by_what_they_spend_alone(tmp_path: Path) -> None:
    found = of_runs(tmp_path)
    assert found and found.threshold == pytest.approx(0.5)
    rollouts, seconds, dense = found.units.values()
    assert rollouts.figures[TO_THRESHOLD].differences["ict"].value == 0
    times = seconds.figures[TO_THRESHOLD]
    assert (times.values["grpo"].value, times.values["ict"].value) == (5, 4)  # 8 is not in budget
    assert seconds.budget == 5 and seconds.reached == {"ict": 2, "grpo": 0, "random": 0}
    assert times.differences["ict"].value == -1
    assert "random" not in times.differences  # none of its runs got there, nor of the baseline's
    assert dense.step["grpo"] == pytest.approx(1)  # every token is trained
    assert 0.5 < dense.step["ict"] == dense.step["random"] < 1
    assert dense.figures[AREA].differences["ict"].value > 0
    assert rollouts.figures[AREA].differences["ict"].value == 0
    curve = found.curves["correct"]["ict"]
    assert curve.spent[CPU] == [1, 2, 3, 4, 5] and len(curve.spent) == 3


def test_rollouts_of_prompts_drawn_again_are_spent(tmp_path: Path) -> None:
    plain, again = of_runs(tmp_path), of_runs(tmp_path, redrawn={"ict": 40.0})
    assert plain and again
    for unit, grows in ((ROLLOUTS, 40.0), (CPU, 0.0)):
        before, after = plain.units[unit], again.units[unit]
        assert after.step["ict"] == pytest.approx(before.step["ict"] + grows)
        assert after.step["grpo"] == before.step["grpo"]
    assert again.units[ROLLOUTS].figures[AREA].differences["ict"].value < 0
    dense = "dense steps of Q"
    assert again.units[dense].step["ict"] > plain.units[dense].step["ict"]


def test_runs_of_older_versions_and_those_that_learn_nothing(tmp_path: Path) -> None:
    found = of_runs(tmp_path, cpu=CPU_OF | {"random": None})
    assert found and list(found.units) == [ROLLOUTS, "dense steps of Q"]
    flat = of_runs(tmp_path, [0.3, 0.35, 0.3])
    assert flat and flat.threshold is None
    assert set(flat.units[CPU].figures) == {AREA, AT_BUDGET} and flat.units[CPU].reached == {}
    assert of_runs(tmp_path, [None] * 3) is None
