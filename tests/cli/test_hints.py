"""Hints are commands that can be typed as they stand; --quiet leaves results and errors."""

import shlex
import shutil
from pathlib import Path

import pytest
from processes import Processes

OPTIONS = [
    ("train quickstart --steps=20 seed=1", "steps=20", "train quickstart steps=20 seed=1"),
    (
        "eval builtin:chain --bench chain --pattern '(a b)'",
        "reward.pattern=(a b)",
        "eval builtin:chain --bench chain 'reward.pattern=(a b)'",
    ),
    ("train quickstart --every 5", "checkpoint.every=5", "train quickstart eval.every=5"),
]


@pytest.mark.parametrize(("typed", "setting", "meant"), OPTIONS)
def test_a_setting_typed_as_an_option_is_shown_as_a_setting(
    ictcli: Processes, typed: str, setting: str, meant: str
) -> None:
    told = ictcli.refused(*shlex.split(typed))
    assert f"settings are {setting}" in told or f" or {setting}" in told
    assert told.endswith(f" ictcli {meant}")


def hinted(text: str) -> list[list[str]]:
    """The words of the ictcli commands in narration, a line each."""
    lines = (line.partition("ictcli ")[2] for line in text.splitlines() if "ictcli " in line)
    return [shlex.split(line) for line in lines]


@pytest.fixture
def spaced(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "my runs" / "a b")
    return Path("my runs") / "a b"


@pytest.mark.parametrize("command", ["resume", "export", "runs show"])
def test_a_path_with_a_space_is_one_word_of_every_hint(
    ictcli: Processes, spaced: Path, command: str
) -> None:
    ended = ictcli.done(*command.split(), spaced)
    commands = hinted(ended.err + ended.out)
    assert any(str(spaced) in " ".join(words) for words in commands)
    assert all(
        Path(word).is_relative_to(spaced) for words in commands for word in words if "my" in word
    )


def test_quiet_leaves_the_result(ictcli: Processes, spaced: Path) -> None:
    loud = ictcli.run("resume", spaced)
    quiet = ictcli.run("resume", spaced, "-q")
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "") and loud.err


def test_quiet_leaves_errors(ictcli: Processes) -> None:
    for args in (["resume", "no", "-q"], ["-q", "resume", "no"], ["runs", "show", "no", "--quiet"]):
        ictcli.refused(*args)
