"""`ictcli eval`: what it measures, of what, and that it does so again."""

import json
from pathlib import Path
from typing import Any

import pytest
from processes import Ended, Processes, refusal

OUTS = ("one", "two", "other")
BENCH = ("--bench", "chain,chain-long", "--n", "6", "--k", "1,3,6", "--limit", "5")


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def timeless(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Results without what no two evaluations share."""
    timed = [{**row, "seconds": 0, "tokens_per_second": 0} for row in rows]
    return [
        {**row, "temperatures": [{**at, "seconds": 0} for at in row["temperatures"]]}
        for row in timed
    ]


def test_the_same_evaluation_gives_the_same_samples_and_its_folder_is_not_written_over(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    found: list[list[dict[str, Any]]] = []
    for out, seed in (("one", "3"), ("two", "3"), ("other", "4")):
        args = ("eval", tiny_model, *BENCH, "max_tokens=16", f"seed={seed}", "--json")
        ended = ictcli.run(*args, "--out", out, folder=tmp_path)
        assert json.loads(ended.out) == json.loads((tmp_path / out / "results.json").read_text())
        found.append(timeless(json.loads(ended.out)))
    assert found[0] == found[1]
    one, two, other = ((tmp_path / out / "chain.jsonl").read_bytes() for out in OUTS)
    assert one == two != other
    before = {path: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert {path.name for path in before} == {
        *(".lock", "settings.json", "timings.jsonl", "results.json", "results.md"),
        *("chain.jsonl", "chain-long.jsonl", "chain@0.jsonl", "chain-long@0.jsonl"),
    }
    again = ictcli.run("eval", tiny_model, *BENCH, "--out", "one", folder=tmp_path)
    assert "one holds an evaluation already. --resume goes on with it" in refusal(again, 2)
    assert {path: path.read_bytes() for path in (tmp_path / "one").iterdir()} == before


def test_temperatures_make_a_curve_and_may_be_added_later(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args = ("eval", tiny_model, "--bench", "chain", "--n", "4", "--limit", "5", "max_tokens=16")
    curve = (*args, "--temperatures", "0,0.5,1", "--json", "--out")
    at_once = ictcli.run(*curve, "at-once", folder=tmp_path)
    assert at_once.code == 0, at_once.err
    (found,) = json.loads(at_once.out)
    assert [(at["temperature"], at["n"]) for at in found["temperatures"]] == [(0, 1), (0.5, 4)]
    assert [name for name in found if "@" in name] == ["pass@1", "pass@2", "pass@4", "maj@4"]
    assert found["greedy"] == found["temperatures"][0]["pass@1"]
    assert ictcli.run(*args, "--out", "later", folder=tmp_path).code == 0
    more = ictcli.run(*curve, "later", "--resume", folder=tmp_path)
    assert timeless(json.loads(more.out)) == timeless([found])
    page = (tmp_path / "later" / "results.md").read_text()
    rows = page.partition("## Temperatures")[2].partition("## ")[0].splitlines()
    cells = [line.split(" | ")[2:4] for line in rows if line.startswith("| tied")]
    assert cells == [["0", "1"], ["0.5", "4"], ["1", "4"]]


def test_a_run_is_evaluated_by_its_final_model(
    ictcli: Processes, trained: tuple[Path, Ended], tmp_path: Path
) -> None:
    run, _ = trained
    args = ("--bench", "chain", "--n", "2", "--k", "1", "--limit", "3", "--json")
    by_run = ictcli.run("eval", run, *args, "--out", "a", folder=tmp_path)
    by_folder = ictcli.run("eval", run / "model", *args, "--out", "b", folder=tmp_path)
    assert by_run.code == by_folder.code == 0
    samples = [(tmp_path / out / "chain.jsonl").read_bytes() for out in "ab"]
    assert samples[0] == samples[1]


def test_a_run_is_evaluated_as_it_was_trained(ictcli: Processes, tmp_path: Path) -> None:
    plugin = tmp_path / "sums.py"
    plugin.write_text(
        "from ictcli.rewards import find_verifier\n"
        "from ictcli.tasks import Benchmark, Domain, register_benchmark\n"
        "from ictcli.types import Problem\n"
        "@register_benchmark('sums-of-a-plugin')\n"
        "def sums():\n"
        "    problems = [Problem('1', '1+2+3=', '6')]\n"
        "    return Benchmark('sums-of-a-plugin', Domain(find_verifier('chain'), words=False),\n"
        "                     lambda n: problems, max_tokens=16)\n"
    )
    args = ("steps=1", "prompts=2", "group=2", "eval.problems=4", "temperature=0.7", "--run", "run")
    named = f'plugins=["{plugin}"]'
    assert ictcli.run("train", "chain", named, *args, folder=tmp_path).code == 0
    asked = ("eval", "run", "--n", "4", "--json", "--bench")
    ended = ictcli.run(*asked, "sums-of-a-plugin", folder=tmp_path)
    assert json.loads(ended.out)[0]["settings"]["temperature"] == 0.7
    plugin.unlink()  # the model of a run outlives its plugins
    ended = ictcli.run(*asked, "chain", "--limit", "4", "temperature=0.5", folder=tmp_path)
    assert json.loads(ended.out)[0]["settings"]["temperature"] == 0.5
    assert "There is no plugin file" in ended.err


def test_markdown_holds_the_tables_and_the_first_prompt(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("2*2+{question}\n")
    args = ("--bench", "chain", "--n", "2", "--k", "1,2", "--limit", "3", "max_tokens=8")
    more = ("prompt.template=mine.txt", "--markdown", "--out", "out")
    ended = ictcli.run("eval", tiny_model, *args, *more, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out == (tmp_path / "out" / "results.md").read_text()
    assert "| model | benchmark | pass@1 | pass@2 | maj@2 | greedy | truncated |" in ended.out
    settings = json.loads((tmp_path / "out" / "results.json").read_text())[0]["settings"]
    first = read(tmp_path / "out" / "chain.jsonl")[0]["prompt"]
    assert settings["example_prompt"] == f"2*2+{first}" and settings["template"] == "own"
    assert settings["stop"] == {"17": "#"} and settings["stop_ids"] == [17]
    assert f"\n2*2+{first}\n" in ended.out


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["max_token=8"], "no key 'max_token' (did you mean max_tokens?)"),
        (["prompt.template=chat"], "has no chat template"),
        (["--json", "--markdown"], "two ways to print"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_anything_is_sampled(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, args: list[str], words: str
) -> None:
    ended = ictcli.run("eval", tiny_model, "--bench", "chain", *args, folder=tmp_path)
    assert words in refusal(ended, 2)
    assert not list(tmp_path.iterdir())


def test_a_verifier_that_fails_is_told_of_once(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(
        "from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark\n"
        "@register_benchmark('failing')\n"
        "def failing():\n"
        "    def verify(response, gold):\n"
        "        raise KeyError('gone')\n"
        "    problems = BENCHMARKS['chain']().problems\n"
        "    return Benchmark('failing', Domain(verify, words=False), problems, max_tokens=8)\n"
    )
    args = ("--bench", "failing", "plugins=failing.py", "--n", "2", "--k", "1", "--limit", "200")
    ended = ictcli.run("eval", tiny_model, *args, "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.err.count("failing: the verifier failed: KeyError: 'gone'") == 1
    assert json.loads(ended.out)[0]["unparsed"] == 1
