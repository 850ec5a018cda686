"""Help, what the shell completes, and what neither must load."""

import subprocess
import sys

from click.shell_completion import ShellComplete
from processes import Processes

from ictcli.cli import COMMANDS, cli

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


def test_the_shell_is_offered_recipes_and_commands() -> None:
    for words, offered in ((["train", "quick"], "quickstart"), (["inspe"], "inspect")):
        *before, last = words
        asked = ShellComplete(cli, {}, "ictcli", "_ICTCLI_COMPLETE").get_completions(before, last)
        assert offered in {item.value for item in asked}
