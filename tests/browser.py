"""Pages in Chromium, where there is one."""

import html
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")


def dump(page: str, folder: Path, *, window: str = "1400,900") -> tuple[Any, str]:
    """The JSON that a script of the page makes its title within 2 s, and what the browser said."""
    path = folder / "page.html"
    path.write_text(page, "utf-8")
    ended = subprocess.run(
        [
            *(CHROMIUM or "", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *(f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr"),
            *("--virtual-time-budget=2000", f"--window-size={window}", path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    title = ended.stdout.split("<title>")[1].split("</title>")[0]
    return json.loads(html.unescape(title)), ended.stderr
