"""Tables of an evaluation that fit a width, and whom a model is compared with."""

import pytest

from ictcli.console import EvalProgress
from ictcli.console.table import fitting, width_of
from ictcli.evaluation.passk import Interval
from ictcli.evaluation.report import reached
from ictcli.evaluation.results import Result, ResultSettings, with_differences


def entry(name: str, benchmark: str) -> Result:
    """What tables and differences read of a result."""
    part = Interval(0.25, 0.125, 0.5)
    return Result.model_construct(
        name=name,
        benchmark=benchmark,
        n=4,
        scores=dict.fromkeys(("pass@1", "pass@4", "maj@4"), part),
        accuracy=0.25,
        settings=ResultSettings.model_construct(temperature=1.0),
        truncated=0.5,
        unparsed=0.25,
        timed_out=0.0,
        tokens=1234567,
        seconds=12345.6,
        tokens_per_second=100.0,
        correct=(1, 2),
        majority=(0.0, 1.0),
        difference=None,
    )


def test_where_it_does_not_fit_it_is_turned() -> None:
    table = reached([entry("Qwen2.5-0.5B", "gpqa_diamond")])
    for width in (35, 60, 80, 120, 200):
        assert width_of(fitting([table, table.turned()], width)) <= width
    rows = fitting([table, table.turned()], 60)
    assert rows[:2] == [["model", "Qwen2.5-0.5B"], ["benchmark", "gpqa_diamond"]]
    assert rows[2] == ["pass@1", "0.250 [0.125, 0.500]"] and ["tokens", "1,234,567"] in rows


def test_a_model_is_not_compared_with_itself() -> None:
    twice = [entry("a", "b"), entry("a", "b"), entry("c", "b")]
    first, again, other = with_differences(twice)
    assert first.difference is again.difference is None
    assert other.difference and other.difference.to == "a"
    assert list(other.difference.scores) == ["pass@1", "pass@4", "maj@4"]


def test_the_bar_knows_the_number_of_samples_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with EvalProgress() as progress:
        progress.of("chain", 5)
    err = capsys.readouterr().err
    assert "0/5 samples" in err and "None" not in err
