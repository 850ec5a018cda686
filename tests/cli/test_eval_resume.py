"""An evaluation that was stopped goes on where it was, if it is still the same evaluation."""

import json
import signal
from pathlib import Path
from typing import Any

from processes import Processes, refusal, wait_until
from test_eval_command import timeless

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
ARGS = ("--bench", "chain-long,slow", "--n", "2", "--k", "1,2", "--limit", "100", "seed=7")
MORE = ("max_tokens=24", "plugins=slow.py", "--json")


def test_ctrl_c_says_how_to_go_on_and_it_ends_with_the_same_numbers(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = ("eval", tiny_model, *ARGS, *MORE)
    whole, out = tmp_path / "whole", tmp_path / "evals" / "tied-seed7"
    ictcli.done(*command, "--out", "whole")
    running = ictcli.start(*command)
    wait_until(lambda: (out / "slow.jsonl").exists() and (out / "slow.jsonl").stat().st_size)
    running.send(signal.SIGINT)
    told = refusal(running.wait(), 130)
    assert "the same command with --resume --out evals/tied-seed7 goes on from there" in told
    kept = (out / "slow.jsonl").read_bytes()
    ended = ictcli.run(*command, "--resume")  # it finds the folder
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
        assert f"The evaluation in out has {words}" in ictcli.refused(*command, *more, "--resume")
    again = json.loads(ictcli.run(*command, "--k", "1,2", "--resume").out)[0]
    assert again["pass@1"] == first["pass@1"] and "pass@2" in again
    assert [path.read_bytes() for path in left] == before
    (tmp_path / "tied").unlink()
    (tmp_path / "tied").symlink_to(untied_model)
    assert "has tied.fingerprint = " in ictcli.refused(*command, "--resume")


def test_with_nothing_to_resume_it_begins(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args: tuple[Any, ...] = ("eval", tiny_model, "--bench", "chain", "--k", "1", "--limit", "1")
    assert "note: nothing to resume in evals" in ictcli.done(*args, "--n", "1", "--resume").err
    ended = ictcli.run(*args, "--n", "2", "--resume")
    assert "evals/tied-seed0 is not resumed: it has n = 1, and now 2" in ended.err
    assert {path.name for path in (tmp_path / "evals").iterdir()} == {"tied-seed0", "tied-seed0-2"}
