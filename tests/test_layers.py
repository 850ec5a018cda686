"""The rooms: imports go one way, and few modules stand outside of them."""

import os
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parent.parent


def test_imports_go_one_way_without_exceptions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert lint_imports(no_cache=True, no_logo=True) == os.EX_OK


def test_at_most_six_modules_are_loose() -> None:
    loose = [p for p in (ROOT / "ictcli").glob("*.py") if not p.name.startswith("__")]
    assert len(loose) <= 6, loose
