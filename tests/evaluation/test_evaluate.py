"""An evaluation against the samples it wrote, with the engine on a model of random weights."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine import Engine
from ictcli.evaluation.evaluate import evaluate
from ictcli.evaluation.record import Evaluation
from ictcli.evaluation.samples import CHUNK, SampleFile
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec
from ictcli.recipe.data import PromptSettings
from ictcli.rewards import Verdict
from ictcli.tasks import Domain, find_benchmark
from ictcli.types import Sampling


def even_length(response: str, gold: str) -> Verdict:
    if not response.endswith("#"):
        raise ValueError("no end")  # becomes unparsed
    return Verdict("wrong" if len(response) % 2 else "correct", response[-2:])


def measure(
    engine: Engine, count: int, samples: Path, *, name: str = "chain", **more: Any
) -> Evaluation:
    benchmark = replace(find_benchmark("chain"), name=name, domain=Domain(even_length, words=False))
    spec = BenchmarkSpec(benchmark, benchmark.problems(count), 12, "chain")
    how: dict[str, Any] = {"n": 4, "k": (4, 1), "seed": 5, "temperatures": ()} | more
    sampling, settings = Sampling(12, stop_ids=engine.stop_ids), EvaluationSettings(**how)
    return evaluate(engine, spec, settings, PromptSettings(), sampling, SampleFile(samples))


def read(samples: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples.read_text().splitlines()]


def test_an_evaluation_counts_what_its_samples_show(engine: Engine, tmp_path: Path) -> None:
    """At other temperatures too, which are evaluations of their own beside it."""
    alone = measure(engine, 6, tmp_path / "alone.jsonl")
    lines = read(tmp_path / "alone.jsonl")
    statuses = np.array([line["status"] for line in lines]).reshape(6, 4)
    right = statuses == "correct"
    assert set(statuses.flat) == {"correct", "wrong", "unparsed"}
    assert list(alone.correct) == right.sum(axis=1).tolist()
    assert alone.unparsed == alone.truncated == pytest.approx((statuses == "unparsed").mean())
    assert list(alone.passes) == ["pass@1", "pass@4"]
    assert alone.passes["pass@1"].value == pytest.approx(right.mean())
    assert alone.passes["pass@4"].value == pytest.approx(right.any(axis=1).mean())
    ids = [problem.id for problem in find_benchmark("chain").problems(6)]
    assert [line["id"] for line in lines[::4]] == ids
    found = measure(engine, 6, tmp_path / "all.jsonl", temperatures=(0.0, 0.5))
    assert read(tmp_path / "all.jsonl") == lines and found.correct == alone.correct
    assert {name: found.scores[name] for name in alone.scores} == alone.scores
    greedy, warm, own = found.curve
    assert (greedy.n, warm.n, own.n) == (1, 4, 4) and own.correct == found.correct
    for at, name in ((greedy, "all@0"), (warm, "all@0.5")):
        lines = read(tmp_path / f"{name}.jsonl")
        right = np.array([line["status"] == "correct" for line in lines]).reshape(6, at.n)
        assert list(at.correct) == right.sum(axis=1).tolist()
        score = at.scores["pass@1"]
        assert score and score.value == pytest.approx(right.mean())
    assert found.scores["greedy"] == greedy.scores["pass@1"] and "greedy" not in alone.scores
    assert Evaluation.model_validate_json(found.model_dump_json()) == found


def test_the_samples_of_a_file_are_the_same_wherever_it_lies(
    engine: Engine, tmp_path: Path
) -> None:
    names, texts = ("rows.jsonl", "/data/rows.jsonl", "other.jsonl"), list[list[str]]()
    for number, name in enumerate(names):
        measure(engine, 4, tmp_path / f"{number}.jsonl", name=name)
        texts.append([line["response"] for line in read(tmp_path / f"{number}.jsonl")])
    assert texts[0] == texts[1] != texts[2]


def test_it_can_be_repeated_and_lengthened(engine: Engine, tmp_path: Path) -> None:
    texts: list[list[dict[str, Any]]] = []
    for number, count in enumerate((CHUNK + 3, CHUNK + 3, CHUNK)):
        measure(engine, count, tmp_path / f"{number}.jsonl")
        texts.append(read(tmp_path / f"{number}.jsonl"))
    assert texts[0] == texts[1] and texts[0][: CHUNK * 4] == texts[2]
    assert len(texts[0]) == (CHUNK + 3) * 4
