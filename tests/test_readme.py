"""The README: short, its commands parse, its links lead to files."""

import re
from pathlib import Path

import pytest
from test_docs import parse

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ *(ictcli .*)$", README, re.M)


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 160


def test_its_two_commands_are_where_scripts_look_for_them() -> None:
    numbered = dict(re.findall(r"^([12])\. `(.*)`$", README, re.M))
    assert numbered["1"].endswith("ictcli train quickstart") and numbered["2"].endswith("pytest")


@pytest.mark.parametrize("line", COMMANDS)
def test_its_commands_parse(line: str) -> None:
    parse(line)


def test_its_links_lead_to_files_also_from_the_package_index() -> None:
    places = r"https://(?:github|raw\.githubusercontent)\.com/ictcli/ictcli/(?:blob/)?main/"
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert re.match(places, target), f"{target} is not absolute"
        assert (ROOT / re.sub(places, "", target)).exists(), target
