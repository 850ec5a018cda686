"""Shell completion, asked by a real bash as it asks when Tab is pressed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Processes
from test_help import loaded_by

from ictcli.cli import COMMANDS

BASH = shutil.which("bash")
ASK = """
compopt() { echo "option $2"; }
source completion
COMP_LINE=$1; COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_ictcli_completion ictcli
printf 'item %s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(processes: Processes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place with runs, and bash's script."""
    folder = tmp_path_factory.mktemp("completion")
    for run in ("runs/a-s0", "runs/deep/b-s0", "my run"):
        (folder / run).mkdir(parents=True)
        (folder / run / "recipe.toml").touch()
    (folder / "runs" / "notes").mkdir()
    (folder / "completion").write_text(processes.run("completion", "bash", folder=folder).out)
    return folder


def press_tab(folder: Path, line: str) -> tuple[set[str], set[str]]:
    """What bash offers after a line, and the options it completes with. Bash takes words apart
    at `=` and `:`."""
    assert BASH
    words = line.replace("=", " = ").replace(":", " : ").split(" ")
    words = [word for word in words[:-1] if word] + words[-1:]
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    asked = subprocess.run(
        [BASH, "-c", ASK, "bash", line, *words],
        cwd=folder,
        env={"PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert not asked.stderr
    lines = [line.partition(" ") for line in asked.stdout.splitlines()]
    return (
        {text for kind, _, text in lines if kind == "item" and text},
        {text for kind, _, text in lines if kind == "option"},
    )


@pytest.mark.skipif(BASH is None, reason="there is no bash")
def test_bash_is_offered_what_fits(folder: Path) -> None:
    """A key is gone on with, and a run's folder may be entered."""
    for line, offered in (
        ("ictcli ", set(COMMANDS)),
        ("ictcli train quickstart model=builtin:c", {"chain"}),
        ("ictcli compare quickstart --methods ict,dr", {"ict,dr_grpo"}),
        ("ictcli export my", {"'my run'"}),
    ):
        assert press_tab(folder, line)[0] == offered
    assert press_tab(folder, "ictcli train quickstart ste")[1] == {"nospace"}
    assert press_tab(folder, "ictcli resume ru")[1] == {"dirnames"}


def test_every_shell_has_its_script(ictcli: Processes) -> None:
    for shell in ("bash", "zsh", "fish"):
        made = ictcli.run("completion", shell)
        assert f"_ICTCLI_COMPLETE={shell}_complete" in made.out and not made.err


def test_completion_loads_no_machine_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "ictcli train quickstart method=")
    monkeypatch.setenv("COMP_PART", "=")
    monkeypatch.setenv("_ICTCLI_COMPLETE", "bash_complete")
    assert not loaded_by() & {"torch", "mlx", "transformers", "datasets", "scipy"}
