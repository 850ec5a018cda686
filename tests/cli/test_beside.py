"""ictcli train --beside: the same run by other methods, and all in one table."""

import json
from pathlib import Path

import pytest
from processes import Processes, Small, refusal

from ictcli.runs.trust import recipe_of

SHORT = ("steps=2", "warmup=1")


def test_methods_beside_train_as_alone(ictcli: Processes, small: Small, tmp_path: Path) -> None:
    recipe = ("train", "chain", *small, *SHORT, "seed=3")
    others = ("method.keep=0.5", "--beside", "grpo,random")
    ended = ictcli.done(*recipe, *others)
    runs = [tmp_path / "runs" / f"chain-{name}-s3" for name in ("ict", "grpo", "random")]
    rows = ended.out.splitlines()
    assert rows[0].split()[:2] == ["method", "pass@1"]
    assert [row.split("  ")[0] for row in rows[1:5]] == ["(before)", "ict", "grpo", "random"]
    scores = json.loads((runs[1] / "summary.json").read_text())["after"]["pass@1"]
    assert f"{scores['value']:.3f} [{scores['low']:.3f}, {scores['high']:.3f}]" in rows[3]
    names = " ".join(str(run.relative_to(tmp_path)) for run in runs)
    assert f"next:  ictcli runs diff {names}" in ended.err
    ictcli.done(*recipe, "method=grpo", "--run", "alone")
    lines = [run / "metrics.jsonl" for run in (runs[1], tmp_path / "alone")]
    assert lines[0].read_bytes() == lines[1].read_bytes()
    assert recipe_of(runs[2]).options().model_dump()["keep"] == 0.5  # the same share


@pytest.mark.thorough
def test_a_later_run_that_fails_is_told_with_the_others(ictcli: Processes, tmp_path: Path) -> None:
    """sc_grpo needs room for two prompts, too, which is known once they are read."""
    (folder := tmp_path / "a").mkdir()
    short = ("steps=1", "prompts=2", "group=2", "eval.problems=2", "eval.n=1", "eval.k=[1]")
    command = ("train", "chain", *short, "max_tokens=124", "--beside", "sc_grpo,grpo", "--run", ".")
    ended = ictcli.run(*command, folder=folder)
    assert "reads a correct response before the prompt" in refusal(ended, 2)
    assert "\ntrained: ict, .\nnot begun: grpo\n" in ended.err
    assert {path.name for path in tmp_path.iterdir()} == {"a", "a-sc_grpo"}  # beside, not in it
