"""`ictcli eval`: what it measures, of what, that it does so again, and goes on where it was stopped
if it is still the same evaluation."""

import json
import re
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import Ended, Processes, refusal, wait_until
from written import write

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


def test_no_evaluation_is_written_over(ictcli: Processes, tiny_model: Path, tmp_path: Path) -> None:
    args = ("eval", tiny_model, *BENCH, "max_tokens=16", "--out", "one")
    ended = ictcli.run(*args, "--json")
    assert json.loads(ended.out) == json.loads((tmp_path / "one" / "results.json").read_text())
    before = {path: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert {path.name for path in before} == {
        *(".lock", "settings.json", "results.json", "results.md"),
        *("chain.jsonl", "chain-long.jsonl", "chain@0.jsonl", "chain-long@0.jsonl"),
    }
    assert "one holds an evaluation already. --resume continues it" in ictcli.refused(*args)
    assert {path: path.read_bytes() for path in (tmp_path / "one").iterdir()} == before


def test_a_curve_of_temperatures_may_be_added_to_later(ictcli: Processes, tiny_model: Path) -> None:
    args = ("eval", tiny_model, "--bench", "chain", "--n", "4", "--limit", "5", "max_tokens=16")
    curve = (*args, "--temperatures", "0,0.5,1", "--out")
    (found,) = ictcli.json(*curve, "at-once")
    assert [(at["temperature"], at["n"]) for at in found["temperatures"]] == [(0, 1), (0.5, 4)]
    assert [name for name in found if "@" in name] == ["pass@1", "pass@2", "pass@4", "maj@4"]
    assert found["greedy"] == found["temperatures"][0]["pass@1"]
    ictcli.done(*args, "--out", "later")
    assert timeless(ictcli.json(*curve, "later", "--resume")) == timeless([found])


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
    ictcli.done("train", "chain", named, *args)
    asked = ("eval", "run", "--n", "4", "--json", "--bench")
    (found,) = ictcli.json(*asked, "sums-of-a-plugin")
    assert found["settings"]["temperature"] == 0.7
    text = plugin.read_text()
    plugin.write_text(text.replace("problems = [", "problems = {}[0] or ["))
    said = ictcli.refused("eval", "builtin:chain", named, "--bench", "sums-of-a-plugin", code=1)
    assert said.startswith(f"The plugin {plugin}, line 6, fails: KeyError: 0. fix the plugin")
    plugin.write_text(text.replace("return Benchmark", "Benchmark"))
    said = ictcli.refused("eval", "builtin:chain", named, "--bench", "sums-of-a-plugin")
    assert said.startswith("The builder of sums-of-a-plugin returned None")
    plugin.unlink()  # the model of a run outlives its plugins
    ended = ictcli.run(*asked, "chain", "--limit", "4", "temperature=0.5")
    assert json.loads(ended.out)[0]["settings"]["temperature"] == 0.5
    assert "There is no plugin file" in ended.err


def test_a_verifier_that_fails_is_told_of_once_and_on_all_answers_ends_it(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "failing.py").write_text(
        "from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark\n"
        "@register_benchmark('failing')\n"
        "def failing():\n"
        "    def verify(response, gold):\n"
        "        if gold in '02468':\n"
        "            raise KeyError('gone')\n"
        "        return False\n"
        "    problems = BENCHMARKS['chain']().problems\n"
        "    return Benchmark('failing', Domain(verify, words=False), problems, max_tokens=8)\n"
    )
    args = ("--bench", "failing", "plugins=failing.py", "--n", "2", "--k", "1", "--limit", "70")
    ended = ictcli.done("eval", tiny_model, *args, "--json")
    assert ended.err.count("failing: the verifier failed: KeyError: 'gone'") == 1
    assert 0.2 < json.loads(ended.out)[0]["unparsed"] < 0.8
    (tmp_path / "none.py").write_text("def judge(response, gold):\n    raise KeyError('gone')\n")
    bench = ("--bench", "chain", "--limit", "2", "max_tokens=8", "--out", "none")
    said = ictcli.refused("eval", tiny_model, *bench, "reward.verifier=none.py:judge", code=1)
    assert "The verifier judge failed on all of 32 answers: KeyError: 'gone' (" in said
    (tmp_path / "own.csv").write_text("question,gold\n1+1=,2\n")
    (tmp_path / "of.py").write_text("def of(completions, metadata):\n    return [1]\n")
    own = ("--bench", "own.csv", "reward.verifier=of.py:of")
    assert "of needs the column 'metadata'" in ictcli.refused("eval", tiny_model, *own)


SMALL = ("--n", "2", "--k", "1,2", "max_tokens=8")
SIZES = ("--n", "4", "--k", "1,4", "--limit", "10", "max_tokens=40")


@pytest.fixture(scope="module")
def side_by_side(
    processes: Processes,
    tiny_model: Path,
    untied_model: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("models")
    models = ("builtin:chain", tiny_model, untied_model)
    args = ("--bench", "chain,chain-long", *SIZES, "--out", "out", "--json")
    ended = processes.done("eval", *models, *args, folder=folder)
    return folder / "out", ended


def test_each_model_differs_from_the_first_by_problem(side_by_side: tuple[Path, Ended]) -> None:
    folder, ended = side_by_side
    found: list[dict[str, Any]] = json.loads(ended.out)
    assert found == json.loads((folder / "results.json").read_text())
    names = ["builtin-chain", "tied", "untied"]
    benches = ["chain", "chain-long"]
    assert [(e["name"], e["benchmark"]) for e in found] == [(n, b) for n in names for b in benches]
    for place, entry in enumerate(found):
        samples = read(folder / entry["name"] / f"{entry['benchmark']}.jsonl")
        right = np.array([line["status"] == "correct" for line in samples]).reshape(10, 4)
        assert entry["correct"] == right.sum(axis=1).tolist()
        first, difference = found[place % 2], entry["difference"]
        if place < 2:
            assert difference is None
            continue
        assert difference["to"] == "builtin-chain"
        for metric in ("pass@1", "pass@4", "maj@4"):
            part = difference[metric]
            value = entry[metric]["value"] - first[metric]["value"]
            assert part["value"] == pytest.approx(value)
            assert part["low"] <= part["value"] <= part["high"]
            assert part["differs"] == (part["high"] < 0 or part["low"] > 0)
    assert found[2]["difference"]["pass@1"]["value"] != 0


def test_beside_others_a_model_s_samples_are_those_it_has_alone(
    ictcli: Processes, side_by_side: tuple[Path, Ended], tmp_path: Path
) -> None:
    ictcli.done("eval", "builtin:chain", "--bench", "chain-long", *SIZES, "--out", "out")
    alone = (tmp_path / "out" / "chain-long.jsonl").read_bytes()
    assert alone == (side_by_side[0] / "builtin-chain" / "chain-long.jsonl").read_bytes()


SECRET = "What is the airspeed of an unladen swallow over 7 fields?"


def test_a_private_question_is_written_where_that_is_asked_for_alone(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    wrong = {f"Incorrect Answer {n}": f"a falsehood of {n} parts" for n in (1, 2, 3)}
    row = {"Question": SECRET, "Correct Answer": "a truth of 4 parts", **wrong, "Record ID": "rec"}
    data = write(tmp_path, [row])
    args = ("eval", tiny_model, "--bench", "gpqa_diamond", f"data={data}", *SMALL, "--out", "out")
    ended = ictcli.done(*args)
    files = list((tmp_path / "out").iterdir())
    assert len(files) == 6
    for text in (ended.out, ended.err, *(path.read_text(encoding="utf-8") for path in files)):
        assert not [word for word in ("swallow", "truth", "falsehood") if word in text]
    kept = {"id", "status", "extracted", "tokens", "finished"}
    assert all(set(line) == kept for line in read(tmp_path / "out" / "gpqa_diamond.jsonl"))
    args = (*args[:-1], "asked", "--show-private")
    ictcli.done(*args)
    assert SECRET in read(tmp_path / "asked" / "gpqa_diamond.jsonl")[0]["prompt"]
    (found,) = json.loads((tmp_path / "asked" / "results.json").read_text())
    assert SECRET in found["settings"]["example_prompt"]
    assert "show_private = true, and now false" in ictcli.refused(*args[:-1], "--resume")


def test_notes_of_a_benchmark_are_told_once_and_recorded_with_its_file(
    ictcli: Processes, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    rows = [{"problem": "1+1", "answer": "2"}, {"problem": "2+2", "answer": "two"}]
    path = write(tmp_path, rows, name="d")
    args = ("eval", tiny_model, untied_model, "--bench", "aime24", f"data={path}", *SMALL)
    ended = ictcli.done(*args, "--json")
    assert ended.err.count("1 of the 2 problems of aime24 (d.jsonl) left out") == 1
    for entry in json.loads(ended.out):
        source = entry["settings"]["source"]
        assert "left out" in entry["notes"][0]
        assert source["file"] == "d.jsonl" and len(source["sha256"]) == 64


SLOW = """
import time
from ictcli.rewards import Verdict
from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark
@register_benchmark('slow')
def slow():
    def verify(response, gold):
        time.sleep(0.004)
        return Verdict('wrong' if len(response) % 2 else 'correct', response[-1:] or '0')
    return Benchmark('slow', Domain(verify, words=False), BENCHMARKS['chain']().problems, 20)
"""
SLOWLY = ("--bench", "chain-long,slow", "--n", "2", "--k", "1,2", "--limit", "100", "seed=7")
MORE = ("max_tokens=24", "plugins=slow.py", "--json")


def test_ctrl_c_says_how_to_go_on_and_it_ends_with_the_same_numbers(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = ("eval", tiny_model, *SLOWLY, *MORE)
    whole, out = tmp_path / "whole", tmp_path / "evals" / "tied-seed7"
    ictcli.done(*command, "--out", "whole")
    running = ictcli.start(*command)
    wait_until(lambda: (out / "slow.jsonl").exists() and (out / "slow.jsonl").stat().st_size)
    running.send(signal.SIGINT)
    told = refusal(running.wait(), 130)
    (again,) = re.findall(r"ictcli (.+ --resume --out evals/tied-seed7) continues", told)
    kept = (out / "slow.jsonl").read_bytes()
    ended = ictcli.run(*shlex.split(again))
    assert ended.code == 0, ended.err
    assert (out / "slow.jsonl").read_bytes().startswith(kept)
    found = [timeless(json.loads((path / "results.json").read_text())) for path in (whole, out)]
    assert found[0] == found[1]
    for name in ("chain-long.jsonl", "slow.jsonl", "settings.json"):
        assert (whole / name).read_bytes() == (out / name).read_bytes()
    assert [path.name for path in out.parent.iterdir()] == ["tied-seed7"]


def test_other_settings_are_not_gone_on_with_and_the_setting_is_named(
    ictcli: Processes, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    """More ks are no other evaluation, and other weights by the same name are."""
    (tmp_path / "tied").symlink_to(tiny_model)
    start = ("--bench", "chain", "--n", "2", "--k", "1", "--limit", "3", "max_tokens=8")
    command = ("eval", "tied", *start, "--out", "out", "--json")
    first = json.loads(ictcli.run(*command).out)[0]
    left = [tmp_path / "out" / name for name in ("settings.json", "chain.jsonl")]
    before = [path.read_bytes() for path in left]
    for more, words in (
        (["--n", "3"], "n = 2, and now 3"),
        (["--bench", "chain,chain-long"], "benchmarks = chain, and now chain, chain-long"),
        (['prompt.suffix="1"'], 'tied.prompt.suffix = null, and now "1"'),
    ):
        assert f"out has other settings: {words}" in ictcli.refused(*command, *more, "--resume")
    again = json.loads(ictcli.run(*command, "--k", "1,2", "--resume").out)[0]
    assert again["pass@1"] == first["pass@1"] and "pass@2" in again
    assert [path.read_bytes() for path in left] == before
    (tmp_path / "tied").unlink()
    (tmp_path / "tied").symlink_to(untied_model)
    assert "other settings: tied.fingerprint = " in ictcli.refused(*command, "--resume")
