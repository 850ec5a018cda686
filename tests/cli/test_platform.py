"""Platforms that ictcli does not run on."""

import subprocess
import sys


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
