"""What is asked for: benchmarks with files of their own, models with their names and recipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ictcli.errors import UserError
from ictcli.evaluation.asking import table_of
from ictcli.evaluation.identity import settings_of
from ictcli.evaluation.request import Request, find_benchmarks, find_contenders
from ictcli.evaluation.trained import as_trained
from ictcli.recipe.settings import ColumnSettings, HubSettings


def bench(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text('{"prompt": "1+1=", "gold": "2"}\n')


def test_each_benchmark_has_a_samples_file_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("q.jsonl", "d/q.jsonl", "q-2.jsonl", "e/Q.jsonl", "timings.jsonl", "d/Results.jsonl")
    bench(tmp_path, *names)
    found = [one.stem for one in find_benchmarks(",".join(names), (), Request())]
    assert found == ["q", "q-2", "q-2-2", "Q-3", "timings-2", "Results-2"]


def test_one_benchmark_under_two_names_is_refused(tmp_path: Path) -> None:
    plugin = tmp_path / "two_names.py"
    plugin.write_text(
        "from ictcli.tasks import BENCHMARKS, register_benchmark\n"
        "register_benchmark('chain-again')(BENCHMARKS['chain'])\n"
    )
    from ictcli.recipe import plugins

    plugins.load(str(plugin))
    with pytest.raises(UserError, match="names the benchmark chain twice"):
        find_benchmarks("chain,chain-again", (), Request())


RECIPES = [
    ("", "it has no temperature"),
    ("temperature = ", "Invalid value"),
    ('temperature = "warm"', "could not convert"),
    ("temperature = 1.0\neval = 3", "'int' object"),
    ("temperature = 1.0\n[engine]\nthreads = 'all'", "threads: Input should be"),
]


@pytest.mark.parametrize(("text", "words"), RECIPES)
def test_a_recipe_that_is_torn_is_said_to_be(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "recipe.toml").write_text(text)
    with pytest.raises(UserError, match=words) as caught:
        as_trained(tmp_path)
    assert "recipe.toml is damaged, or no run's recipe" in caught.value.message


def test_the_files_of_verifiers_and_plugins_are_part_of_the_settings(tmp_path: Path) -> None:
    grader = tmp_path / "grader.py"
    grader.write_text("def grade(response, gold):\n    return True\n")
    (tmp_path / "graded.py").write_text(
        "from ictcli.rewards import find_verifier\n"
        "from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark\n"
        f"verify = find_verifier({str(grader)!r} + ':grade')\n"
        "@register_benchmark('by-a-file')\n"
        "def graded():\n"
        "    return Benchmark('by-a-file', Domain(verify, words=False),\n"
        "                     BENCHMARKS['chain']().problems, max_tokens=8)\n"
    )
    (tmp_path / "recipe.toml").write_text(f"temperature = 1.0\nplugins = ['{tmp_path}/graded.py']")
    loaded = as_trained(tmp_path).plugins
    assert [path.name for path in loaded] == ["graded.py"]
    asked = find_benchmarks("by-a-file", (), Request())
    before = settings_of(Request(), (), asked, loaded)["plugins"]
    assert list(before) == ["graded.py", "grader.py"]
    grader.write_text("def grade(response, gold):\n    return False\n")
    after = settings_of(Request(), (), asked, loaded)["plugins"]
    assert after["graded.py"] == before["graded.py"] and after["grader.py"] != before["grader.py"]


def test_a_model_is_never_named_as_a_folder_above(
    tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").symlink_to(tiny_model)
    inner = tiny_model.parent / "inner"
    monkeypatch.chdir(tiny_model)
    found = find_contenders([".", f"../{tiny_model.name}/../{tiny_model.name}/."], Request())
    assert not any(".." in Path(one.name).parts or not one.name for one in found)
    assert not inner.exists()


def test_columns_are_named_for_the_data_sets_they_are_of(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("frage,antwort\n1+1=,2\n")
    columns = table_of(ColumnSettings, "--columns", ["prompt=frage", "gold=antwort"])
    request = Request(columns=columns)
    (mine, chain) = find_benchmarks(f"{tmp_path / 'mine.csv'},chain", (), request)
    assert [(p.prompt, p.gold) for p in mine.problems] == [("1+1=", "2")] and chain.problems
    with pytest.raises(UserError, match="--columns is of data sets of one's own, not of chain"):
        find_benchmarks("chain", (), request)
    with pytest.raises(UserError, match="--hub is of hub:owner/name, not of"):
        find_benchmarks(str(tmp_path / "mine.csv"), (), Request(hub=HubSettings(split="x")))
    with pytest.raises(UserError, match=r"--columns golds=x is not KEY=VALUE \(did you mean gold"):
        table_of(ColumnSettings, "--columns", ["golds=x"])
