"""Help, completion as a real bash asks for it when Tab is pressed, and what neither must load."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from processes import Processes

from ictcli.cli import COMMANDS

HEAVY = {"torch", "mlx", "transformers", "numpy", "scipy", "datasets", "pydantic", "rich"}


def loaded_by(*lines: str) -> set[str]:
    """The heavy modules that a process of these commands has imported when it ends."""
    code = (
        "import sys; from ictcli.cli import main\n"
        f"for line in {lines}:\n"
        "    sys.argv = ['ictcli', *line.split()]\n"
        "    try: main()\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return HEAVY & set(found.stderr.splitlines()[-1].split())


def test_help_loads_nothing_heavy() -> None:
    assert loaded_by("train --help", "--help", "--version") == set()


def test_reading_recipes_loads_no_machine_learning() -> None:
    dry = [f"train chain --dry-run --backend {name}" for name in ("torch", "mlx")]
    loaded = loaded_by(*dry, "recipes ls", "runs ls recipes")
    assert not loaded & {"torch", "mlx", "transformers", "datasets"}


def test_every_command_has_a_help(ictcli: Processes) -> None:
    ended = ictcli.run("--help")
    lines = ended.out.split("Commands:\n")[1].splitlines()
    listed = [line.split() for line in lines if line[2:3] != " "]
    assert [words[0] for words in listed] == list(COMMANDS) and min(map(len, listed)) > 2
    assert not any(line.endswith("...") for line in lines)  # cut
    for command in ("train", "runs", "runs gc"):
        ended = ictcli.run(*command.split(), "--help")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out.startswith(f"Usage: ictcli {command} ")


def test_windows_gets_a_sentence_and_a_way_out_at_once() -> None:
    """The platform is all that is changed: nothing is imported that Windows has not."""
    code = (
        "import sys; sys.platform = 'win32'\n"
        "sys.modules.update(click=None, fcntl=None, resource=None)\n"
        "from ictcli.__main__ import main; main()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "--help"], capture_output=True, text=True, timeout=60
    )
    assert (ended.returncode, ended.stdout) == (1, "")
    sentence, empty, hint = ended.stderr.splitlines()
    assert sentence == "error: ictcli runs on Linux and macOS, not on Windows."
    assert empty == "" and hint.startswith("hint: wsl --install ")


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
    for shell in ("zsh", "fish"):
        made = ictcli.run("completion", shell)
        assert f"_ICTCLI_COMPLETE={shell}_complete" in made.out and not made.err


def test_completion_loads_no_machine_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMP_LINE", "ictcli train quickstart method=")
    monkeypatch.setenv("COMP_PART", "=")
    monkeypatch.setenv("_ICTCLI_COMPLETE", "bash_complete")
    assert not loaded_by("") & {"torch", "mlx", "transformers", "datasets", "scipy"}
