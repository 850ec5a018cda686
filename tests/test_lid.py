"""How large the program may be. These numbers only go down: one in, one out."""

from pathlib import Path

from ictcli.recipe import shipped_recipes

ROOT = Path(__file__).parent.parent
FROZEN = (ROOT / "tests" / "cli" / "frozen.txt").read_text(encoding="utf-8").splitlines()
KEYS, OPTIONS, METHODS, RECIPES = 141, 48, 15, 30
PROGRAM, TESTS = 35_880, 19_880
"""Lines of Python."""


def lines(*folders: str) -> int:
    files = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return sum(path.read_bytes().count(b"\n") for path in files)


def test_nothing_comes_in_that_nothing_goes_out_for() -> None:
    words = [word for line in FROZEN if line.startswith("ictcli") for word in line.split()]
    assert len({word for word in words if word.startswith("--")}) <= OPTIONS
    assert sum(line.startswith("recipe: ") for line in FROZEN) <= KEYS
    own = (ROOT / "ictcli" / "algorithm").glob("*.py")
    named = sum(path.read_text(encoding="utf-8").count("\n@register(") for path in own)
    named += (
        (ROOT / "ictcli/algorithm/choosing.py").read_text(encoding="utf-8").count("\n@selects(")
    )
    assert named <= METHODS
    assert len(shipped_recipes()) <= RECIPES
    assert lines("ictcli", "backends") <= PROGRAM
    assert lines("tests") <= TESTS
