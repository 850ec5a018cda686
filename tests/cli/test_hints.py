"""Hints are commands that can be typed as they stand; --quiet leaves results and errors."""

import shlex
import shutil
from pathlib import Path

import pytest
from processes import Processes


def test_a_setting_typed_as_an_option_is_shown_as_a_setting(ictcli: Processes) -> None:
    evaluation = "eval builtin:chain --bench chain"
    for typed, setting, meant in (
        ("train chain --steps=20 seed=1", "settings are steps=20", "train chain steps=20 seed=1"),
        ("train chain --every 5", " or checkpoint.every=5", "train chain eval.every=5"),
        (
            f"{evaluation} --pattern '(a b)'",
            "settings are reward.pattern=(a b)",
            f"{evaluation} 'reward.pattern=(a b)'",
        ),
    ):
        told = ictcli.refused(*shlex.split(typed))
        assert setting in told and told.endswith(f" ictcli {meant}")


def hinted(text: str) -> list[list[str]]:
    """The words of the ictcli commands in narration, a line each."""
    lines = (line.partition("ictcli ")[2] for line in text.splitlines() if "ictcli " in line)
    return [shlex.split(line) for line in lines]


@pytest.fixture
def spaced(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "my runs" / "a b")
    return Path("my runs") / "a b"


def test_a_path_with_a_space_is_one_word_of_every_hint(ictcli: Processes, spaced: Path) -> None:
    for command in (["resume"], ["export"], ["runs", "show"]):
        ended = ictcli.done(*command, spaced)
        words = [word for line in hinted(ended.err + ended.out) for word in line if "my" in word]
        assert words and all(Path(word).is_relative_to(spaced) for word in words)


def test_quiet_leaves_results_and_errors(ictcli: Processes, spaced: Path) -> None:
    loud, quiet = (ictcli.run("resume", spaced, *more) for more in ((), ("-q",)))
    assert (quiet.code, quiet.out, quiet.err) == (0, loud.out, "") and loud.err
    for args in (["resume", "no", "-q"], ["-q", "resume", "no"], ["runs", "show", "no", "--quiet"]):
        ictcli.refused(*args)
