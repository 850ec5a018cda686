"""The pages of docs/ and the README say what is: each page is in the site, links resolve, commands
parse. That examples run: cli/test_examples.py."""

import json
import re
import runpy
import shlex
from pathlib import Path

import from_code
import pytest

from ictcli.algorithm.methods import METHODS
from ictcli.cli import COMMANDS, cli
from ictcli.recipe import recipe_keys

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
STUDY = ROOT / "studies" / "ict"
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = {
    str(path.relative_to(DOCS)): path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md")
}
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


def test_steps_beside_trl_are_what_was_measured() -> None:
    """Each row of the table is that of a file of results, by its options."""
    number = r"([\d.]+)(?: s)?"
    row = rf"^\| [^|]+ \| `(--[^`]+)` \| {number} \| {number} \| {number} \| {number} \|$"
    table = re.findall(row, PAGES["speed.md"], re.M)
    files = (ROOT / "bench" / "results").glob("trl-*.json")
    results = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    assert len(table) == len(results)
    measured = list[tuple[str, list[float]]]()
    for one in results:
        command = one["command"].replace(" --int8", "")  # it timed a sampler that is gone, too
        peer = "trl" if "trl" in one["a step"] else "trl, vllm"
        step, ratio = one["a step"], one["ratios"][f"ours / {peer}"]
        figures = [step["ours"]["cpu"], step[peer]["cpu"], ratio["cpu"], ratio["peak"]]
        measured.append((command, figures))
    for options, *texts in table:
        digits = [len(text.partition(".")[2]) for text in texts]
        assert texts in [
            [f"{value:.{n}f}" for value, n in zip(figures, digits, strict=True)]
            for command, figures in measured
            if f" {options} --json" in command
        ], options


def parse(line: str) -> None:
    """Parse a line that begins with ictcli as the command line would."""
    _, name, *arguments = shlex.split(line, comments=True)
    assert name in COMMANDS
    context = cli.make_context("ictcli", ["doctor"])
    command = cli.get_command(context, name)
    assert command is not None
    command.make_context(name, arguments, parent=context)


@pytest.mark.parametrize("line", [*COMMAND_LINES, *re.findall(r"^ *(ictcli .*)$", README, re.M)])
def test_commands_of_the_pages_parse(line: str) -> None:
    parse(line)


def test_the_reference_describes_every_key_method_and_command() -> None:
    described = from_code.recipe_keys() + from_code.methods()
    rows = {
        cells[0]: cells[-1]
        for cells in re.findall(r"^\| `([\w.]+)` \|.* \| (.*) \|$", described, re.M)
    }
    inner = re.findall(r"^`([\w.]+)\.\*`", described, re.M)
    for key in recipe_keys():
        if key != "method.name" and not key.startswith(tuple(f"{name}." for name in inner)):
            assert rows.get(key), key
    described += from_code.commands()
    for name in (*(f"`{method}`" for method in METHODS), *(f"ictcli {each}" for each in COMMANDS)):
        assert f"## {name}\n" in described


def test_the_map_has_a_row_for_every_room() -> None:
    for top in ("ictcli", "backends"):
        for room in (path.parent for path in (ROOT / top).glob("*/__init__.py")):
            assert f"`{room.relative_to(ROOT)}/`" in PAGES["map.md"], room


def test_the_tables_of_the_study_are_made_of_its_data(capsys: pytest.CaptureFixture[str]) -> None:
    page = runpy.run_path(str(STUDY / "page.py"))
    figures = {path: path.read_text(encoding="utf-8") for path in STUDY.glob("*.svg")}
    page["main"]()
    table = capsys.readouterr().out.split("\n\n")
    text = (STUDY / "README.md").read_text(encoding="utf-8")
    assert all(part.strip() in text for part in table)
    assert {path: path.read_text(encoding="utf-8") for path in figures} == figures
    assert len(text.split()) <= 1_200


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= 110


def test_its_two_commands_are_where_scripts_look_for_them() -> None:
    numbered = dict(re.findall(r"^([12])\. `(.*)`$", README, re.M))
    assert numbered["1"].endswith("ictcli train quickstart") and numbered["2"].endswith("pytest")


def test_its_links_lead_to_files_also_from_the_package_index() -> None:
    places = r"https://(?:github|raw\.githubusercontent)\.com/ictcli/ictcli/(?:blob/)?main/"
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert re.match(places, target), f"{target} is not absolute"
        assert (ROOT / re.sub(places, "", target)).exists(), target
