"""No text of a stranger acts on the terminal, forges a line, or becomes markup: every command."""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml
from browser import dump, needs_chromium
from markdown_it import MarkdownIt
from processes import Ended, Processes
from strangers import HOSTILE, NAME, World
from terminal import Terminal

BEFORE = "<script>addEventListener('error', () => { window.errorSeen = 1; });</script>"
AFTER = """<script>addEventListener("load", () => {
  for (const key of ["m", "s", "n", "[", "]", "ArrowRight", "ArrowDown"])
    document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  document.querySelectorAll("button").forEach((button) => button.type === "button"
    && button.className !== "csv" && button.click());
  const all = [...document.querySelectorAll("*")];
  document.title = JSON.stringify([window.pwned ?? null, window.errorSeen ?? null,
    document.querySelectorAll("img, link, iframe, object, base, a:not([href^='#'])").length,
    all.filter((e) => [...e.attributes].some((a) => a.name.startsWith("on"))).length,
    document.querySelectorAll("script").length, document.body.innerText.includes("onerror=")]);
});</script>"""
SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FENCED = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)


def check(text: str) -> None:
    """All can be seen, and no line is one that a text began outside a block. A table may fold a
    cell there; the sign of its line break then stands in the same line."""
    assert not hidden(text), text
    lines = [line for line in FENCED.sub("", text).split("\n") if "⏎" not in line]
    assert not [line for line in lines if line.lstrip().startswith(("error: f", "hint: f", "# f"))]
    assert "Traceback" not in text


def hidden(text: str) -> set[str]:
    """What is neither a sign that can be seen, nor a line break or a tab."""
    return {c for c in text if not c.isprintable() and c not in "\n\t"}


def show(ictcli: Processes, world: World, *args: str | Path, code: int = 0) -> Ended:
    ended = ictcli.run(*args, folder=world.folder, NO_COLOR="1", TERM="dumb")
    assert ended.code == code, ended.err
    check(ended.out)
    check(ended.err)
    return ended


def on_a_terminal(ictcli: Processes, world: World, *args: str | Path) -> str:
    """What a command wrote to a terminal."""
    with Terminal(ictcli, world.folder, *args, size=(40, 100), stdin=os.devnull) as terminal:
        assert terminal.end() == 0, terminal.said
    assert "[95;105m" not in "".join(SEQUENCE.findall(terminal.said))
    check(SEQUENCE.sub("", terminal.said))
    return terminal.said


@pytest.fixture(scope="module")
def world(
    processes: Processes, tiny_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> World:
    """Trained on a terminal, in the live view, which showed the tokens."""
    world = World(tmp_path_factory.mktemp("strangers"), tiny_model)
    method = f"method={HOSTILE}"
    said = on_a_terminal(
        processes, world, "train", "chain", *world.keys, method, "--run", world.run
    )
    assert "newest rollout" in said and "step 2/2" in said
    world.spoil()
    return world


@pytest.fixture(scope="module")
def compared(processes: Processes, world: World) -> Path:
    methods = ("--methods", f"grpo,{HOSTILE}", "--seeds", "1", "--out", f"{NAME}c")
    show(processes, world, "compare", "chain", *world.keys, *methods)
    return world.folder / f"{NAME}c"


def test_what_reads_a_run_shows_no_control_character(ictcli: Processes, world: World) -> None:
    run = world.run
    for args in (("runs", "ls", world.folder), ("runs", "show", run), ("inspect", run)):
        assert "[95;105m" in show(ictcli, world, *args).out
        on_a_terminal(ictcli, world, *args)
        told = json.loads(show(ictcli, world, *args, "--json").out)
        assert json.dumps(NAME)[1:-1] in json.dumps(told)
    show(ictcli, world, "runs", "diff", run, run)
    assert "not the file that" in show(ictcli, world, "runs", "check", run, code=1).out
    json.loads(show(ictcli, world, "runs", "check", run, "--json", code=1).out)
    show(ictcli, world, "resume", run)
    show(ictcli, world, "inspect", run)
    show(ictcli, world, "recipes", "show", run / "recipe.toml")
    show(ictcli, world, "grade", world.data)
    show(ictcli, world, "grade", world.data, "--explain")
    plan = show(ictcli, world, "train", "chain", *world.keys, "--dry-run")
    (world.folder / "again.toml").write_text(plan.out, "utf-8")
    again = show(ictcli, world, "train", "again.toml", "--dry-run", "--json")
    assert str(world.data) == json.loads(again.out)["recipe"]["task"]


@pytest.mark.parametrize(
    "args",
    [
        [HOSTILE],
        [f"--{HOSTILE}"],
        ["runs", "show", HOSTILE],
        ["train", HOSTILE],
        ["train", "chain", f"{HOSTILE}=1"],
        ["train", "chain", f"task={HOSTILE}"],
        ["train", "chain", f"lr={HOSTILE}"],
        ["eval", HOSTILE, "--bench", HOSTILE],
        ["grade", HOSTILE],
    ],
)
def test_an_error_is_one_line_whatever_it_names(
    ictcli: Processes, world: World, args: Sequence[str]
) -> None:
    ended = show(ictcli, world, *args, code=2)
    assert re.fullmatch(r"(?:loading .+\n)?error: .+\n\nhint: .+\n", ended.err), ended.err


def test_an_answer_is_shown_as_signs(ictcli: Processes, world: World) -> None:
    asked = ("generate", world.run, "1+1=", "--n", "8", "max_tokens=40", "--gold", HOSTILE)
    ended = ictcli.done(*asked, folder=world.folder)
    assert "[95;105m" in ended.out, ended.err
    assert not hidden(ended.out + ended.err)
    told = ictcli.json(*asked, folder=world.folder)
    assert any(HOSTILE in answer["text"] for answer in told["answers"])
    show(ictcli, world, "generate", world.model, f"{HOSTILE}Ω", code=2)


def plain_markdown(text: str) -> None:
    """Only what ictcli writes is markup."""
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    every = [child for token in tokens for child in (token, *(token.children or ()))]
    assert not {"html_block", "html_inline", "image"} & {token.type for token in every}
    assert not [t for t in every if t.type == "link_open"]
    heads = [tokens[i + 1].content for i, t in enumerate(tokens) if t.type == "heading_open"]
    assert "forged" not in heads and not [t for t in tokens if t.type == "hr"]
    assert "table_open" in {t.type for t in tokens}
    assert "| forged |" not in FENCED.sub("", text).split("\n")


def test_evaluations_and_cards_are_plain_markdown(ictcli: Processes, world: World) -> None:
    args = ("eval", world.model, "--bench", world.bench, "--n", "2", "-k", "1", "max_tokens=12")
    show(ictcli, world, *args, "--limit", "2", "--out", f"{NAME}e")
    plain_markdown((world.folder / f"{NAME}e" / "results.md").read_text())
    made = world.folder / f"{NAME}x"
    show(ictcli, world, "export", world.run, "--out", made)
    _, header, body = (made / "README.md").read_text("utf-8").split("---\n", 2)
    check(header + body)
    assert yaml.safe_load(header)["tags"][-1] == HOSTILE
    plain_markdown(body)


@pytest.mark.thorough
def test_a_comparison_is_plain_markdown(compared: Path) -> None:
    plain_markdown((compared / "report.md").read_text("utf-8"))
    assert not hidden((compared / "report.html").read_text("utf-8"))


@needs_chromium
def test_no_script_of_a_text_runs_in_a_browser(
    ictcli: Processes, world: World, tmp_path: Path
) -> None:
    page = world.folder / f"{NAME}.html"
    show(ictcli, world, "inspect", world.run, "--html", page)
    text = page.read_text("utf-8")
    assert not hidden(text)
    text = text.replace("<head>", f"<head>{BEFORE}", 1)
    place = text.rindex("</body>")
    told, said = dump(text[:place] + AFTER + text[place:], tmp_path)
    assert "CONSOLE" not in said
    assert told == [None, None, 0, 0, 4, True]
