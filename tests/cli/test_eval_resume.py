"""An evaluation that is killed goes on where it was, and ends with the very same numbers."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from processes import Ended, Processes, Running, refusal
from test_eval_command import timeless

SLOW = """
import time
from ictcli.rewards import Verdict
from ictcli.tasks import BENCHMARKS, Benchmark, Domain, register_benchmark
@register_benchmark('slow')
def slow():
    def verify(response, gold):
        time.sleep(0.002)
        return Verdict('wrong' if len(response) % 2 else 'correct', response[-1:] or '0')
    return Benchmark('slow', Domain(verify, words=False), BENCHMARKS['chain']().problems, 20)
"""
ARGS = ("--bench", "chain-long,slow", "--n", "16", "--k", "1,16", "--limit", "100", "seed=7")
MORE = ("max_tokens=24", "plugins=slow.py", "--json")


@pytest.fixture(scope="module")
def whole(
    ictcli: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Ended]:
    """The folder of an evaluation that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "slow.py").write_text(SLOW)
    ended = ictcli.run("eval", tiny_model, *ARGS, *MORE, "--out", "out", folder=folder)
    assert ended.code == 0, ended.err
    return folder / "out", ended


def stop_at(running: Running, file: Path, size: int, how: signal.Signals) -> Ended:
    """Stop an evaluation once a file has that size."""
    end = time.monotonic() + 60
    while not (file.exists() and file.stat().st_size >= size) and time.monotonic() < end:
        time.sleep(0.002)
    running.send(how)
    return running.wait()


def same(one: Path, other: Path) -> None:
    found = [timeless(json.loads((path / "results.json").read_text())) for path in (one, other)]
    assert found[0] == found[1]
    for name in ("chain-long.jsonl", "slow.jsonl", "settings.json"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.thorough
def test_killed_again_and_again_it_ends_with_the_same_numbers(
    ictcli: Processes, tiny_model: Path, whole: tuple[Path, Ended], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = ("eval", tiny_model, *ARGS, *MORE, "--out", "out")
    out = tmp_path / "out"
    lines: list[int] = []
    for part in (0.0, 0.2, 0.45):
        more = ("--resume",) if lines else ()
        running = ictcli.start(*command, *more, folder=tmp_path)
        size = int(part * (whole[0] / "slow.jsonl").stat().st_size) + 1
        assert stop_at(running, out / "slow.jsonl", size, signal.SIGKILL).code == -signal.SIGKILL
        lines.append((out / "slow.jsonl").read_bytes().count(b"\n"))  # whole ones
        with (out / "slow.jsonl").open("ab") as file:
            file.write(b'{"id": "1+2", "prom')  # as a kill in a write leaves it
        with (out / "timings.jsonl").open("ab") as file:
            file.write(b'{"mod')
    assert 0 < lines[0] < lines[1] < lines[2] < 1600
    ended = ictcli.run(*command, "--resume", folder=tmp_path)
    assert ended.code == 0, ended.err
    same(out, whole[0])
    assert json.loads(ended.out)[1]["seconds"] > 1600 * 0.002  # those of all sittings


def test_ctrl_c_says_how_to_go_on(
    ictcli: Processes, tiny_model: Path, whole: tuple[Path, Ended], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = ("eval", tiny_model, *ARGS, *MORE)
    running = ictcli.start(*command, folder=tmp_path)
    out = tmp_path / "evals" / "tied-seed7"
    told = refusal(stop_at(running, out / "slow.jsonl", 1, signal.SIGINT), 130)
    assert "the same command with --resume --out evals/tied-seed7 goes on from there" in told
    kept = (out / "slow.jsonl").read_bytes()
    ended = ictcli.run(*command, "--resume", folder=tmp_path)  # it finds the folder
    assert ended.code == 0, ended.err
    assert (out / "slow.jsonl").read_bytes().startswith(kept)
    same(out, whole[0])
    assert [path.name for path in out.parent.iterdir()] == ["tied-seed7"]


def test_a_finished_evaluation_is_told_again_and_with_other_ks(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args = ("eval", tiny_model, "--bench", "chain", "--n", "4", "--limit", "3", "--json")
    first = ictcli.run(*args, folder=tmp_path)
    samples = tmp_path / "evals" / "tied-seed0" / "chain.jsonl"
    before = samples.stat().st_mtime_ns
    again = ictcli.run(*args, "--resume", "--k", "1,2,4", folder=tmp_path)
    one, other = json.loads(first.out)[0], json.loads(again.out)[0]
    assert one["pass@4"] == other["pass@4"] and "pass@2" in other
    assert samples.stat().st_mtime_ns == before


CHANGES: list[tuple[list[str], str]] = [
    (["--n", "3"], "n = 2, and now 3"),
    (["temperature=0.5"], "tied.temperature = 1.0, and now 0.5"),
    (["--bench", "chain,chain-long"], "benchmarks = chain, and now chain, chain-long"),
    (['prompt.suffix="1"'], 'tied.prompt.suffix = null, and now "1"'),
]


def test_other_settings_are_not_gone_on_with_and_the_setting_is_named(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    start = ("--bench", "chain", "--n", "2", "--k", "1", "--limit", "3", "max_tokens=8")
    command = ("eval", tiny_model, *start, "--out", "out")
    assert ictcli.run(*command, folder=tmp_path).code == 0
    before = (tmp_path / "out" / "settings.json").read_bytes()
    for more, words in CHANGES:
        told = refusal(ictcli.run(*command, *more, "--resume", folder=tmp_path), 2)
        assert f"The evaluation in out has {words}" in told
    assert ictcli.run(*command, "--resume", folder=tmp_path).code == 0
    assert (tmp_path / "out" / "settings.json").read_bytes() == before


def test_other_weights_are_another_model(
    ictcli: Processes, tiny_model: Path, untied_model: Path, tmp_path: Path
) -> None:
    args = ("--bench", "chain", "--n", "1", "--k", "1", "--limit", "1", "--out", "out")
    (tmp_path / "tied").symlink_to(tiny_model)
    assert ictcli.run("eval", "tied", *args, folder=tmp_path).code == 0
    (tmp_path / "tied").unlink()
    (tmp_path / "tied").symlink_to(untied_model)
    told = refusal(ictcli.run("eval", "tied", *args, "--resume", folder=tmp_path), 2)
    assert "has tied.fingerprint = " in told


def test_with_nothing_to_resume_it_begins(
    ictcli: Processes, tiny_model: Path, tmp_path: Path
) -> None:
    args: tuple[Any, ...] = ("eval", tiny_model, "--bench", "chain", "--k", "1", "--limit", "1")
    ended = ictcli.run(*args, "--n", "1", "--resume", folder=tmp_path)
    assert ended.code == 0 and "note: nothing to resume in evals" in ended.err
    ended = ictcli.run(*args, "--n", "2", "--resume", folder=tmp_path)
    assert ended.code == 0
    assert "evals/tied-seed0 is not resumed: it has n = 1, and now 2" in ended.err
    assert {path.name for path in (tmp_path / "evals").iterdir()} == {"tied-seed0", "tied-seed0-2"}
