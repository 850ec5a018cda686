"""`ictcli eval`: what it measures, of what, and that it does so again."""

import itertools
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
    return [{**row, "seconds": 0, "tokens_per_second": 0} for row in rows]


@pytest.fixture(scope="module")
def parity_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plugin with a benchmark of the verifier that half of all responses satisfy."""
    path = tmp_path_factory.mktemp("plugin") / "parity_bench.py"
    path.write_text(
        "from ictcli.rewards import Verdict\n"
        "from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark\n"
        "@register_benchmark('parity')\n"
        "def parity():\n"
        "    def verify(response, gold):\n"
        "        return Verdict('wrong' if len(response) % 2 else 'correct')\n"
        "    problems = BENCHMARKS['chain']().problems\n"
        "    return Benchmark('parity', Domain(verify, words=False), problems, max_tokens=20)\n"
    )
    return path


@pytest.fixture(scope="module")
def evaluated(
    ictcli: Processes,
    tiny_model: Path,
    parity_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, Ended]:
    folder = tmp_path_factory.mktemp("evaluated")
    args = ("--bench", "parity,chain-long", *BENCH[2:], "max_tokens=24")
    args = (*args, f"plugins={parity_file}")
    ended = ictcli.run("eval", tiny_model, *args, "--json", "--out", "out", folder=folder)
    assert ended.code == 0, ended.err
    return folder / "out", ended


def test_the_results_on_stdout_are_the_folder_s(evaluated: tuple[Path, Ended]) -> None:
    folder, ended = evaluated
    found = json.loads(ended.out)
    assert found == json.loads((folder / "results.json").read_text())
    assert [row["benchmark"] for row in found] == ["parity", "chain-long"]
    assert all(row["problems"] == 5 and row["n"] == 6 for row in found)
    assert {path.name for path in folder.iterdir()} == {
        *(".lock", "settings.json", "timings.jsonl", "results.json", "results.md"),
        *("parity.jsonl", "chain-long.jsonl"),
    }


def test_pass_at_k_is_that_of_every_subset_of_the_samples(evaluated: tuple[Path, Ended]) -> None:
    folder, ended = evaluated
    samples = read(folder / "parity.jsonl")
    problems = [samples[i : i + 6] for i in range(0, 30, 6)]
    assert all(len({sample["id"] for sample in problem}) == 1 for problem in problems)
    found = json.loads(ended.out)[0]
    assert 0 < found["pass@1"]["value"] < found["pass@3"]["value"] <= found["pass@6"]["value"]
    for k in (1, 3, 6):
        subsets = [
            any(sample["status"] == "correct" for sample in subset)
            for problem in problems
            for subset in itertools.combinations(problem, k)
        ]
        expected = sum(subsets) / len(subsets)
        assert found[f"pass@{k}"]["value"] == pytest.approx(expected)
        assert found[f"pass@{k}"]["low"] <= expected <= found[f"pass@{k}"]["high"]


def test_shares_and_tokens_are_those_of_the_samples(evaluated: tuple[Path, Ended]) -> None:
    folder, ended = evaluated
    found, samples = json.loads(ended.out)[1], read(folder / "chain-long.jsonl")
    statuses = [sample["status"] for sample in samples]
    assert found["unparsed"] == pytest.approx(statuses.count("unparsed") / 30)
    cut = sum(not sample["response"].endswith("#") for sample in samples)
    assert found["truncated"] == pytest.approx(cut / 30)
    assert found["timed_out"] == 0 and found["accuracy"] == statuses.count("correct") / 30
    assert found["tokens"] == sum(sample["tokens"] for sample in samples)
    assert found["tokens"] >= sum(len(sample["response"]) for sample in samples)
    assert found["tokens_per_response"] == pytest.approx(found["tokens"] / 30)


def test_the_same_evaluation_gives_the_same_samples(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    found: list[list[dict[str, Any]]] = []
    for out, seed in (("one", "3"), ("two", "3"), ("other", "4")):
        args = ("eval", tiny_model, *BENCH, "max_tokens=16", f"seed={seed}", "--json")
        ended = ictcli.run(*args, "--out", out, folder=tmp_path)
        found.append(timeless(json.loads(ended.out)))
    assert found[0] == found[1]
    one, two, other = ((tmp_path / out / "chain.jsonl").read_bytes() for out in OUTS)
    assert one == two != other


def test_a_problem_s_samples_do_not_depend_on_how_many_there_are(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    for out, limit in (("few", "2"), ("more", "5")):
        args = ("--bench", "chain", "--n", "2", "--k", "1", "--limit", limit, "max_tokens=16")
        assert ictcli.run("eval", tiny_model, *args, "--out", out, folder=tmp_path).code == 0
    few, more = (read(tmp_path / out / "chain.jsonl") for out in ("few", "more"))
    assert more[:4] == few


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


def test_without_out_evaluations_are_numbered_and_none_is_lost(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args = ("--bench", "chain", "--n", "1", "--k", "1", "--limit", "1")
    for _ in range(2):
        ended = ictcli.run("eval", tiny_model, *args, folder=tmp_path)
        assert ended.code == 0
        assert "chain" in ended.out and "1 problems, 1 samples each" in ended.err
    base = tmp_path / "evals"
    assert sorted(path.name for path in base.iterdir()) == ["tied-seed0", "tied-seed0-2"]


def test_benchmarks_of_one_name_keep_their_samples_apart(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    for folder, gold in (("a", "1"), ("b", "2")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same.jsonl").write_text(
            f'{{"prompt": "0+{gold}=", "gold": "{gold}"}}'
        )
    args = ("--bench", "a/same.jsonl,b/same.jsonl", "--n", "1", "--k", "1", "max_tokens=8")
    ended = ictcli.run("eval", tiny_model, *args, "--out", "out", folder=tmp_path)
    assert ended.code == 0, ended.err
    golds = [read(tmp_path / "out" / name)[0]["gold"] for name in ("same.jsonl", "same-2.jsonl")]
    assert golds == ["1", "2"]


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


def test_a_folder_that_holds_an_evaluation_is_not_written_over(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args = ("eval", tiny_model, "--bench", "chain", "--n", "1", "--k", "1", "--limit", "1")
    assert ictcli.run(*args, "--out", "out", folder=tmp_path).code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    told = refusal(ictcli.run(*args, "--out", "out", folder=tmp_path), 2)
    assert "out holds an evaluation already. --resume goes on with it" in told
    assert {path: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_markdown_holds_the_tables_and_the_first_prompt(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine.txt").write_text("2*2+{question}\n")
    args = ("--bench", "chain", "--n", "2", "--k", "1,2", "--limit", "3", "max_tokens=8")
    more = ("prompt.template=mine.txt", "--markdown", "--out", "out")
    ended = ictcli.run("eval", tiny_model, *args, *more, folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.out == (tmp_path / "out" / "results.md").read_text()
    assert "| model | benchmark | pass@1 | pass@2 | maj@2 | truncated |" in ended.out
    settings = json.loads((tmp_path / "out" / "results.json").read_text())[0]["settings"]
    first = read(tmp_path / "out" / "chain.jsonl")[0]["prompt"]
    assert settings["example_prompt"] == f"2*2+{first}" and settings["template"] == "own"
    assert settings["stop"] == {"17": "#"} and settings["stop_ids"] == [17]
    assert f"\n2*2+{first}\n" in ended.out


def test_an_answer_pattern_makes_other_answers_readable(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "d.jsonl").write_text('{"prompt": "1+1=", "gold": "3"}')
    args = ("eval", tiny_model, "--bench", "d.jsonl", "--n", "256", "--k", "1")
    args = (*args, "max_tokens=16")
    statuses: list[set[str]] = []
    for number, more in enumerate(([], [r"reward.pattern=^\D*(\d)"])):
        ended = ictcli.run(*args, *more, "--out", str(number), folder=tmp_path)
        assert ended.code == 0, ended.err
        statuses.append({line["status"] for line in read(tmp_path / str(number) / "d.jsonl")})
    assert statuses[0] == {"unparsed"} and statuses[1] >= {"correct", "wrong"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--bench", ","], "--bench names no benchmark"),
        (["--bench", "aime23,aime24", "data=d.jsonl"], "which of the 2 benchmarks it is of"),
        (
            ["--bench", "aime23", "data.aime24=d.jsonl"],
            "data.aime24 is of none of the benchmarks aime23",
        ),
        (["--bench", "aime23", "data=d.jsonl", "data.aime23=e.jsonl"], "is a value, not a table"),
        (["--bench", "aime23", "data=d.jsonl"], "There is no data file d.jsonl"),
        (["--bench", "chain", "data=d.jsonl"], "chain makes its own problems"),
        (["--bench", "chain", "prompt.template=Q: {quest}"], "is no template and no file"),
        (["--bench", "chain", "prompt.template=chat"], "has no chat template"),
        (["--bench", "chain", "reward.pattern=("], "is no regular expression"),
        (
            ["--bench", "chain", "reward.timeout=0"],
            "reward.timeout = 0: input should be greater than 0",
        ),
        (["--bench", "chain", "--json", "--markdown"], "two ways to print"),
        (["--bench", "chain", "max_token=8"], "no key 'max_token' (did you mean max_tokens?)"),
    ],
)
def test_what_cannot_be_evaluated_is_said_before_anything_is_sampled(
    ictcli: Processes, tiny_model: Path, tmp_path: Path, args: list[str], words: str
) -> None:
    assert words in refusal(ictcli.run("eval", tiny_model, *args, folder=tmp_path), 2)
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
    args = (
        "--bench",
        "failing",
        "plugins=failing.py",
        "--n",
        "2",
        "--k",
        "1",
        "--limit",
        "200",
    )
    ended = ictcli.run("eval", tiny_model, *args, "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    assert ended.err.count("failing: the verifier failed: KeyError: 'gone'") == 1
    assert json.loads(ended.out)[0]["unparsed"] == 1
