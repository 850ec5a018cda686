"""An evaluation against the samples it wrote, with the engine on a model of random weights."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine
from ictcli.evaluation.evaluate import Examination, evaluate
from ictcli.evaluation.passk import Interval
from ictcli.evaluation.record import Evaluation
from ictcli.evaluation.results import Result, ResultSettings, with_differences
from ictcli.evaluation.samples import CHUNK, SampleFile
from ictcli.recipe.data import PromptSettings
from ictcli.rewards import Verdict
from ictcli.tasks import Domain, find_benchmark
from ictcli.types import Sampling


def even_length(response: str, gold: str) -> Verdict:
    if not response.endswith("#"):
        raise ValueError("no end")  # becomes unparsed
    return Verdict("wrong" if len(response) % 2 else "correct", response[-2:])


def measure(
    engine: Engine, count: int, samples: Path, others: Mapping[float, int] | None = None
) -> Evaluation:
    asked = Examination(
        "chain",
        find_benchmark("chain").problems(count),
        Domain(even_length, words=False),
        Sampling(12, stop_ids=engine.stop_ids),
        PromptSettings(),
        n=4,
        ks=(4, 1, 4),
        seed=5,
        others=others or {},
    )
    return evaluate(engine, asked, SampleFile(samples))


def test_an_evaluation_counts_what_its_samples_show(engine: Engine, tmp_path: Path) -> None:
    found = measure(engine, 6, tmp_path / "samples.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "samples.jsonl").read_text().splitlines()]
    statuses = np.array([line["status"] for line in lines]).reshape(6, 4)
    assert set(statuses.flat) == {"correct", "wrong", "unparsed"}
    assert list(found.correct) == (statuses == "correct").sum(axis=1).tolist()
    assert found.unparsed == pytest.approx((statuses == "unparsed").mean())
    assert found.truncated == pytest.approx((statuses == "unparsed").mean())
    assert list(found.passes) == ["pass@1", "pass@4"]
    assert found.passes["pass@1"].value == pytest.approx((statuses == "correct").mean())
    assert found.passes["pass@4"].value == pytest.approx((statuses == "correct").any(axis=1).mean())
    assert [line["id"] for line in lines[::4]] == [
        problem.id for problem in find_benchmark("chain").problems(6)
    ]


def test_it_can_be_repeated_and_lengthened(engine: Engine, tmp_path: Path) -> None:
    counts = (CHUNK + 3, CHUNK + 3, CHUNK)
    texts: list[list[str]] = []
    for number, count in enumerate(counts):
        path = tmp_path / f"{number}.jsonl"
        measure(engine, count, path)
        texts.append(path.read_text().splitlines())
    assert texts[0] == texts[1]
    assert texts[0][: CHUNK * 4] == texts[2]
    assert len(texts[0]) == (CHUNK + 3) * 4


def test_other_temperatures_are_evaluations_of_their_own_beside_it(
    engine: Engine, tmp_path: Path
) -> None:
    alone = measure(engine, 6, tmp_path / "alone.jsonl")
    found = measure(engine, 6, tmp_path / "all.jsonl", {0.0: 1, 0.5: 2})
    alone_bytes, own_bytes = (
        (tmp_path / f"{name}.jsonl").read_bytes() for name in ("alone", "all")
    )
    assert own_bytes == alone_bytes and found.correct == alone.correct
    assert {name: found.scores[name] for name in alone.scores} == alone.scores
    greedy, warm, own = found.curve
    assert (greedy.n, warm.n, own.n) == (1, 2, 4) and own.correct == found.correct
    for at, name in ((greedy, "all@0"), (warm, "all@0.5")):
        lines = [json.loads(line) for line in (tmp_path / f"{name}.jsonl").read_text().splitlines()]
        right = np.array([line["status"] == "correct" for line in lines]).reshape(6, at.n)
        assert list(at.correct) == right.sum(axis=1).tolist()
        score = at.scores["pass@1"]
        assert score and score.value == pytest.approx(right.mean())
        readable = sum(line["status"] != "unparsed" for line in lines)
        assert readable and at.accuracy_readable == pytest.approx(right.sum() / readable)
    assert found.scores["greedy"] == greedy.scores["pass@1"] and "greedy" not in alone.scores
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def entry(name: str, benchmark: str) -> Result:
    """What differences read of a result."""
    scores = dict.fromkeys(("pass@1", "pass@4", "maj@4"), Interval(0.25, 0.125, 0.5))
    return Result.model_construct(
        name=name,
        benchmark=benchmark,
        n=4,
        scores=scores,
        settings=ResultSettings.model_construct(temperature=1.0),
        correct=(1, 2),
        majority=(0.0, 1.0),
        difference=None,
    )


def test_a_model_is_not_compared_with_itself() -> None:
    twice = [entry("a", "b"), entry("a", "b"), entry("c", "b")]
    first, again, other = with_differences(twice)
    assert first.difference is again.difference is None
    assert other.difference and other.difference.to == "a"
    assert list(other.difference.scores) == ["pass@1", "pass@4", "maj@4"]
