"""An engine that an installed package adds is one of those that commands know."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BROKEN = "def build(model, settings, optimizer, adapter):\n    raise OSError('no such device')\n"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a package whose engine cannot start, as pip leaves it."""
    about = tmp_path / "site" / "abacus-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[ictcli.engines]\nabacus = abacus:build\n")
    (about.parent / "abacus.py").write_text(BROKEN)
    return about.parent


def ictcli(site: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ictcli", *args],
        env={**os.environ, "PYTHONPATH": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
    )


def test_doctor_tries_it(site: Path) -> None:
    rows = {row["check"]: row for row in json.loads(ictcli(site, "doctor", "--json").stdout)}
    assert rows["engine torch"]["state"] == "ok"
    assert rows["engine abacus"]["state"] == "failed"
    assert rows["engine abacus"]["finding"] == "OSError: no such device"


def test_backend_takes_its_name(site: Path) -> None:
    taken = ictcli(site, "train", "chain", "--backend", "abacus", "--dry-run", "-q")
    assert taken.returncode == 0 and 'backend = "abacus"' in taken.stdout
    refused = ictcli(site, "train", "chain", "--backend", "abacos", "--dry-run")
    assert refused.returncode == 2
    assert "'abacos' is not one of 'auto', 'torch', 'mlx', 'abacus'" in refused.stderr
