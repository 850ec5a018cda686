"""An evaluation against the samples it wrote, with the engine on a model of random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine import Engine, build_engine
from ictcli.evaluation.evaluate import CHUNK, Examination, SampleFile, evaluate
from ictcli.evaluation.record import Evaluation
from ictcli.recipe.data import PromptSettings
from ictcli.recipe.tables import EngineSettings
from ictcli.rewards import Verdict
from ictcli.tasks import Domain, find_benchmark
from ictcli.types import Sampling


@pytest.fixture(scope="module")
def engine(tiny_model: Path) -> Engine:
    return build_engine(str(tiny_model), EngineSettings(threads=1))


def even_length(response: str, gold: str) -> Verdict:
    if not response.endswith("#"):
        raise ValueError("no end")  # becomes unparsed
    return Verdict("wrong" if len(response) % 2 else "correct", response[-2:])


def measure(engine: Engine, count: int, samples: Path) -> Evaluation:
    asked = Examination(
        "chain",
        find_benchmark("chain").problems(count),
        Domain(even_length, words=False),
        Sampling(12, stop_ids=engine.stop_ids),
        PromptSettings(),
        n=4,
        ks=(4, 1, 4),
        seed=5,
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


def test_its_json_holds_no_number_that_is_not_one(engine: Engine, tmp_path: Path) -> None:
    record = measure(engine, 2, tmp_path / "samples.jsonl")
    text = json.dumps(record.model_dump(mode="json"), allow_nan=False)
    assert Evaluation.model_validate_json(text) == record
    found: dict[str, Any] = json.loads(text)
    assert found["tokens_per_response"] == pytest.approx(found["tokens"] / 8)
    assert found["settings"]["max_tokens"] == 12 and found["settings"]["seed"] == 5
    assert found["pass@1"].keys() == {"value", "low", "high"}
