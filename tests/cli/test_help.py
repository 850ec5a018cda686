"""Help, and what a command must not load."""

import subprocess
import sys

import pytest
from processes import Processes

from ictcli.cli import COMMANDS
from tests.cases import first

HEAVY = {"torch", "mlx", "transformers", "numpy", "scipy", "datasets", "pydantic", "rich"}


def loaded_by(*args: str) -> set[str]:
    """The heavy modules that a process of that command has imported when it ends."""
    code = (
        "import sys; from ictcli.cli import main\n"
        f"sys.argv = {['ictcli', *args]}\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "sys.stderr.write('\\n' + ' '.join(sys.modules))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return HEAVY & set(found.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("line", first(["train --help", "--help", "--version"]))
def test_help_loads_nothing_heavy(line: str) -> None:
    assert loaded_by(*line.split()) == set()


DRY = ("train chain --dry-run --backend torch", "train chain --dry-run --backend mlx")


@pytest.mark.parametrize("line", first([*DRY, "recipes ls", "runs ls recipes"], 2))
def test_reading_recipes_loads_no_machine_learning(line: str) -> None:
    assert not loaded_by(*line.split()) & {"torch", "mlx", "transformers", "datasets"}


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
