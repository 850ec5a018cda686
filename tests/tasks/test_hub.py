"""Data sets of the hub: what is asked of it, what is recorded, and what a failure says."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import datasets
import pytest
from datasets.exceptions import DatasetNotFoundError
from datasets.packaged_modules.json.json import Json
from huggingface_hub.errors import OfflineModeIsEnabled
from refusing import refused

from ictcli.engine.hub import VARIABLES, answers
from ictcli.errors import UserError
from ictcli.recipe.data import ColumnSettings, HubSettings
from ictcli.tasks import find_benchmark, find_task
from ictcli.tasks.datasets import SOURCES

PIN = SOURCES["gsm8k"].revision or ""
OTHER = "a" * 40
ROWS = [{"question": f"q{i}", "answer": f"so\n#### {i}"} for i in range(5)]


class Loaded(list[dict[str, Any]]):
    """As much of a data set as is used: its rows, and files in the cache."""

    def __init__(self, rows: list[dict[str, Any]], revision: str | None) -> None:
        super().__init__(rows)
        file = f"/cache/openai___gsm8k/main/0.0.0/{revision}/gsm8k-test.arrow"
        self.cache_files = [{"filename": file}] if revision else []


@pytest.fixture(autouse=True)
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """An empty cache, and a hub that does not answer."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    answers.cache_clear()
    yield tmp_path / "cache"
    answers.cache_clear()


Calls = list[tuple[str, str, str, str | None]]
Hub = Callable[[Any], Calls]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Hub:
    """Has the hub answer (path, config, revision), or fail; gives the list of what it is asked."""

    def answering(answer: Any) -> Calls:
        calls: Calls = []

        def load_dataset(path: str, config: str, *, split: str, revision: str | None) -> Any:
            calls.append((path, config, split, revision))
            if isinstance(answer, Exception):
                raise answer
            return answer(path, config, revision)

        monkeypatch.setattr(datasets, "load_dataset", load_dataset)
        return calls

    return answering


def offline(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


def test_the_pinned_commit_of_a_source_is_asked_for_and_recorded(hub: Hub) -> None:
    assert all(re.fullmatch("[0-9a-f]{40}", each.revision or "") for each in SOURCES.values())
    calls = hub(lambda path, config, revision: Loaded(ROWS, revision))
    bench = find_benchmark("gsm8k")
    assert calls == [("openai/gsm8k", "main", "test", PIN)]
    assert [(p.id, p.gold) for p in bench.problems(None)] == [
        (f"gsm8k-test-{n}", str(n)) for n in range(5)
    ]
    where = {"path": "openai/gsm8k", "config": "main", "split": "test", "revision": PIN}
    assert bench.source == where and not bench.notes


def test_each_config_is_loaded_in_its_order(hub: Hub) -> None:
    def answer(path: str, config: str, revision: str | None) -> Loaded:
        rows = [{"question": f"{config} {i}", "answer": str(i)} for i in range(15)]
        return Loaded(rows, revision)

    calls = hub(answer)
    bench = find_benchmark("aime25")
    assert [call[1:3] for call in calls] == [("AIME2025-I", "test"), ("AIME2025-II", "test")]
    assert bench.source["config"] == ["AIME2025-I", "AIME2025-II"] and not bench.notes
    assert [p.prompt for p in bench.problems(None)][14:16] == ["AIME2025-I 14", "AIME2025-II 0"]


NAMED = ColumnSettings(prompt="q", gold="a")


def only_v1(path: str, config: str, revision: str | None) -> Loaded:
    if revision not in (None, "v1"):
        raise DatasetNotFoundError(f"Revision '{revision}' doesn't exist for dataset '{path}'")
    return Loaded([{"q": f"{config} {i}", "a": str(i)} for i in range(60)], revision)


def test_a_data_set_of_ones_own_is_asked_for_as_the_recipe_says(hub: Hub) -> None:
    calls = hub(only_v1)
    task = find_task("hub:me/mine", columns=NAMED)
    pinned = HubSettings(config="hard", split="dev", revision="v1")
    bench = find_benchmark("hub:me/mine", columns=NAMED, hub=pinned)
    find_benchmark("hub:me/mine", columns=NAMED)
    asked = ("me/mine", "hard", "dev", "v1")
    assert calls == [("me/mine", None, "train", None), asked, ("me/mine", None, "test", None)]
    assert (
        len(task.train) + len(task.held) == 60
        and "No revision of me/mine is pinned" in task.notes[0]
    )
    assert [p.prompt for p in bench.problems(2)] == ["hard 0", "hard 1"]
    assert not bench.notes and bench.source["split"] == "dev"
    with refused("The data set me/mine has no revision v2"):
        find_task("hub:me/mine", columns=NAMED, hub=HubSettings(revision="v2"))
    for name in ("ledger", "gsm8k", "math"):
        task = find_task(name, data="hub:me/mine", columns=NAMED, hub=pinned)
        assert task.train[0].prompt == "hard 0" and task.source["split"] == "dev"
    assert calls[4:] == [asked] * 3


@pytest.mark.parametrize("name", ["hub:csv", "hub:/etc/x", "hub:", "hub:a/b/c", "hub:../x"])
def test_only_data_sets_of_the_hub_are_asked_of_it(hub: Hub, name: str) -> None:
    calls = hub(only_v1)
    with pytest.raises(UserError, match=r"names no data set of the hub"):
        find_task(name)
    assert not calls


GATED = DatasetNotFoundError("Dataset 'Idavidrein/gpqa' is a gated dataset on the Hub.")
MISSING = DatasetNotFoundError("Dataset 'x' doesn't exist on the Hub or cannot be accessed.")


@pytest.mark.parametrize(
    ("name", "error", "words"),
    [
        ("gpqa_diamond", GATED, "The data set Idavidrein/gpqa is gated"),
        ("gpqa_diamond", MISSING, "The data set Idavidrein/gpqa is gated"),
        ("gpqa", ValueError("CSV parse error in row: a secret"), "cannot be loaded: ValueError."),
        ("gsm8k", MISSING, "The hub has no data set openai/gsm8k, or you have no access to it."),
        ("gsm8k", ConnectionError("no"), "is not in the cache, and the hub does not answer."),
        ("gsm8k", ValueError("Couldn't find cache for it"), "and the hub does not answer."),
        ("gsm8k", ValueError("Builder 'main' not found.\nmore"), "be loaded: Builder 'main' no"),
        ("gsm8k", RuntimeError(), "The data set openai/gsm8k cannot be loaded: RuntimeError."),
    ],
)
def test_a_failure_is_one_sentence_and_names_a_file_or_a_page_of_terms(
    hub: Hub, name: str, error: Exception, words: str
) -> None:
    """Of a private data set nothing is quoted."""
    hub(error)
    with refused(words, hint="data=FILE.jsonl") as caught:
        find_benchmark(name)
    page = "https://huggingface.co/datasets/Idavidrein/gpqa and log in with `hf auth login`"
    assert (page in caught.value.hint) == ("gated" in words)
    assert "secret" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", VARIABLES)
def test_offline_and_not_in_the_cache(hub: Hub, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    offline(monkeypatch, name)
    with refused(f"openai/gsm8k is not in the cache, and {name} keeps this machine offline"):
        find_benchmark("gsm8k")  # of `datasets` itself, which asks no network
    hub(OfflineModeIsEnabled("no"))
    with refused("Idavidrein/gpqa is not in the cache"):
        find_benchmark("gpqa")


def test_another_commit_in_the_cache_is_told_of_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch, empty_cache: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = empty_cache.parent / "rows.jsonl"  # as `datasets` keeps a commit of openai/gsm8k, main
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    builder = Json(
        cache_dir=str(empty_cache),
        dataset_name="gsm8k",
        config_name="main",
        data_files={"train": [str(file)], "test": [str(file)]},
        hash=OTHER,
    )
    builder.download_and_prepare()
    folder = empty_cache / "openai___gsm8k" / "main" / "0.0.0" / OTHER
    folder.parent.mkdir(parents=True, exist_ok=True)
    Path(builder.cache_dir).rename(folder)
    offline(monkeypatch, "HF_DATASETS_OFFLINE")
    capfd.readouterr()
    bench = find_benchmark("gsm8k")
    assert bench.source["revision"] == OTHER and len(bench.problems(None)) == 5
    assert f"was loaded at revision {OTHER}, not {PIN}." in bench.notes[0]
    assert capfd.readouterr() == ("", "")
