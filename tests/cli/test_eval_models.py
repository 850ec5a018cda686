"""Several models side by side, and the seven benchmarks, private ones too."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import Ended, Processes, refusal
from test_eval_command import read

SECRET = "What is the airspeed of an unladen swallow over 7 fields?"
SMALL = ("--n", "2", "--k", "1,2", "max_tokens=8")


@pytest.fixture(scope="module")
def side_by_side(
    ictcli: Processes,
    tiny_model: Path,
    untied_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("models")
    args = ("--bench", "chain,chain-long", "--n", "8", "--k", "1,8", "--limit", "40")
    models = ("builtin:chain", tiny_model, untied_model)
    more = ("max_tokens=48", "--out", "out", "--json")
    ended = ictcli.run("eval", *models, *args, *more, folder=folder)
    assert ended.code == 0, ended.err
    return folder / "out", ended


def test_each_model_has_an_entry_a_benchmark_and_differs_from_the_first_by_problem(
    side_by_side: tuple[Path, Ended],
) -> None:
    folder, ended = side_by_side
    found: list[dict[str, Any]] = json.loads(ended.out)
    assert found == json.loads((folder / "results.json").read_text())
    names = ["builtin-chain", "tied", "untied"]
    benches = ["chain", "chain-long"]
    assert [(e["name"], e["benchmark"]) for e in found] == [(n, b) for n in names for b in benches]
    for place, entry in enumerate(found):
        samples = read(folder / entry["name"] / f"{entry['benchmark']}.jsonl")
        right = np.array([line["status"] == "correct" for line in samples]).reshape(40, 8)
        assert entry["correct"] == right.sum(axis=1).tolist()
        first, difference = found[place % 2], entry["difference"]
        if place < 2:
            assert difference is None
            continue
        assert difference["to"] == "builtin-chain"
        for metric in ("pass@1", "pass@8", "maj@8"):
            part = difference[metric]
            value = entry[metric]["value"] - first[metric]["value"]
            assert part["value"] == pytest.approx(value)
            assert part["low"] <= part["value"] <= part["high"]
            assert part["differs"] == (part["high"] < 0 or part["low"] > 0)
    assert found[2]["difference"]["pass@1"]["differs"]


def test_beside_others_a_model_s_samples_are_those_it_has_alone(
    ictcli: Processes, side_by_side: tuple[Path, Ended], tmp_path: Path
) -> None:
    args = ("--bench", "chain-long", "--n", "8", "--k", "1", "--limit", "40", "max_tokens=48")
    assert ictcli.run("eval", "builtin:chain", *args, "--out", "out", folder=tmp_path).code == 0
    alone = (tmp_path / "out" / "chain-long.jsonl").read_bytes()
    assert alone == (side_by_side[0] / "builtin-chain" / "chain-long.jsonl").read_bytes()


def test_a_model_that_cannot_be_loaded_is_found_before_anything_is_sampled(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    shutil.copytree(tiny_model, tmp_path / "bad")
    (tmp_path / "bad" / "tokenizer.json").write_text("{")
    told = refusal(ictcli.run("eval", tiny_model, "bad", "--bench", "chain", folder=tmp_path), 2)
    assert "bad cannot be loaded" in told
    args = ("eval", "builtin:chain", tiny_model, "--bench", "chain", "max_tokens=127")
    assert "tied: The prompt of problem" in refusal(ictcli.run(*args, folder=tmp_path), 2)
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def gpqa_rows() -> list[dict[str, Any]]:
    wrong = {f"Incorrect Answer {n}": f"a falsehood of {n} parts" for n in (1, 2, 3)}
    row = {"Question": SECRET, "Correct Answer": "a truth of 4 parts", **wrong}
    return [{**row, "Record ID": f"rec{n}"} for n in range(3)]


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Path]:
    """Each benchmark's columns in a file of its own; the tiny tokenizer reads digits alone."""
    folder = tmp_path / "data"
    folder.mkdir()
    choices = {"question": "1 of 2?", "subject": "physics", "choices": ["w", "x", "y"], "answer": 1}
    maths = {"problem": "1+1", "solution": r"\boxed{2}", "answer": "2", "unique_id": "a/1"}
    aime = {"problem": "1+1", "answer": "025", "url": "https://x/2023_AIME_I"}
    rows = {
        "math500": [maths],
        "gsm8k": [{"question": "1+1", "answer": "so\n#### 2"}],
        "mmlu_stem": [choices],
        "gpqa": gpqa_rows(),
        "gpqa_diamond": gpqa_rows(),
        "aime23": [aime],
        "aime24": [aime],
        "aime25": [{"question": "1+1", "answer": "25"}],
    }
    return {name: write(folder / f"{name}.jsonl", *lines) for name, lines in rows.items()}


def test_a_file_stands_in_for_each_benchmark(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, data: dict[str, Path]
) -> None:
    files = [f"data.{name}={path}" for name, path in data.items()]
    args = ("--bench", ",".join(data), *files, *SMALL, "--out", "out", "--json")
    ended = ictcli.run("eval", tiny_model, *args, folder=tmp_path)
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert [entry["benchmark"] for entry in found] == list(data)
    for entry in found:
        source = entry["settings"]["source"]
        assert source["file"] == data[entry["benchmark"]].name and len(source["sha256"]) == 64
        assert "boxed" in (entry["settings"]["example_prompt"] or "boxed")


def test_nothing_of_a_private_question_is_written_or_shown(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, data: dict[str, Path]
) -> None:
    args = ("eval", tiny_model, "--bench", "gpqa_diamond", f"data={data['gpqa_diamond']}", *SMALL)
    told = ""
    for number, more in enumerate(([], ["--json"], ["--markdown"])):
        ended = ictcli.run(*args, *more, "--out", f"out{number}", folder=tmp_path)
        assert ended.code == 0, ended.err
        told += ended.out + ended.err
    shutil.rmtree(tmp_path / "data")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 3 * 7
    for text in (told, *(path.read_text(encoding="utf-8") for path in files)):
        assert not [word for word in ("swallow", "truth", "falsehood") if word in text]
    kept = {"id", "status", "extracted", "tokens", "finished"}
    assert all(set(line) == kept for line in read(tmp_path / "out0" / "gpqa_diamond.jsonl"))


def test_private_questions_are_kept_where_that_is_asked_for(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, data: dict[str, Path]
) -> None:
    args = ("eval", tiny_model, "--bench", "gpqa", f"data={data['gpqa']}", *SMALL)
    ended = ictcli.run(*args, "--show-private", "--out", "out", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert SECRET in read(tmp_path / "out" / "gpqa.jsonl")[0]["prompt"]
    assert (
        SECRET
        in json.loads((tmp_path / "out" / "results.json").read_text())[0]["settings"][
            "example_prompt"
        ]
    )
    told = refusal(ictcli.run(*args, "--out", "out", "--resume", folder=tmp_path), 2)
    assert "show_private = true, and now false" in told


def test_notes_of_a_benchmark_are_told_once_and_recorded(
    ictcli: Processes, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    rows = [{"problem": "1+1", "answer": "2"}, {"problem": "2+2", "answer": "two"}]
    path = write(tmp_path / "d.jsonl", *rows)
    models = ("eval", tiny_model, untied_model)
    args = (*models, "--bench", "aime24", f"data={path}", *SMALL, "--out", "out", "--json")
    ended = ictcli.run(*args, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.err.count("1 of the 2 problems of aime24 (d.jsonl) left out") == 1
    assert ["left out" in entry["notes"][0] for entry in json.loads(ended.out)] == [True, True]
