"""An engine that an installed package adds is one of those that commands know."""

from pathlib import Path

import pytest
from processes import Ended, fresh

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


def test_backend_takes_its_name(site: Path) -> None:
    def dry(name: str) -> Ended:
        command = ("train", "chain", "--backend", name, "--dry-run", "-q")
        return fresh(*command, folder=site, PYTHONPATH=str(site))

    taken = dry("abacus")
    assert taken.code == 0 and 'backend = "abacus"' in taken.out
    refused = dry("abacos")
    assert refused.code == 2
    assert "'abacos' is not one of 'auto', 'torch', 'mlx', 'abacus'" in refused.err
