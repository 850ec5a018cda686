"""The pages of docs/ say what is: each is in the site, its links resolve, its commands parse."""

import re
import shlex
from pathlib import Path

import from_code
import pytest

from ictcli.algorithm.methods import METHODS
from ictcli.cli import COMMANDS, cli
from ictcli.recipe import recipe_keys

DOCS = Path(__file__).parent.parent / "docs"
PAGES = {
    str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")
}
del PAGES["chain-compare/report.md"]  # a report as `ictcli compare` writes it
COMMAND_LINES = [
    part.strip()
    for page in PAGES.values()
    for block in re.findall(r"```console\n(.*?)```", page, re.S)
    for line in block.splitlines()
    for part in line.split("&&")
    if part.strip().startswith("ictcli ")
]


def test_every_page_is_in_the_table_of_contents() -> None:
    trees = re.findall(r"```\{toctree\}\n(.*?)```", PAGES["index.md"], re.S)
    listed = [line for tree in trees for line in tree.splitlines() if line and line[0] != ":"]
    assert sorted(f"{name}.md" for name in listed) == sorted(PAGES.keys() - {"index.md"})


@pytest.mark.parametrize("page", PAGES)
def test_links_to_files_resolve(page: str) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", PAGES[page]):
        if not re.match(r"https?:|mailto:", target):
            assert ((DOCS / page).parent / target).exists(), target


@pytest.mark.parametrize("line", COMMAND_LINES)
def test_commands_of_the_pages_parse(line: str) -> None:
    _, name, *arguments = shlex.split(line, comments=True)
    assert name in COMMANDS
    context = cli.make_context("ictcli", ["doctor"])
    command = cli.get_command(context, name)
    assert command is not None
    command.make_context(name, arguments, parent=context)


def test_the_reference_describes_every_key_and_method() -> None:
    described = from_code.recipe_keys() + from_code.methods()
    rows = {
        cells[0]: cells[-1]
        for cells in re.findall(r"^\| `([\w.]+)` \|.* \| (.*) \|$", described, re.M)
    }
    inner = re.findall(r"^`([\w.]+)\.\*`", described, re.M)
    for key in recipe_keys():
        if key != "method.name" and not key.startswith(tuple(f"{name}." for name in inner)):
            assert rows.get(key), key
    for name in METHODS:
        assert f"## `{name}`" in described


def test_the_reference_shows_every_command() -> None:
    shown = from_code.commands()
    for name in COMMANDS:
        assert f"\n## ictcli {name}\n" in f"\n{shown}"
