"""The page: nothing of the model's text becomes markup, nothing is fetched, keys work."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from synthetic import HOSTILE, record

from ictcli.inspect.page import page
from ictcli.inspect.pieces import sign
from ictcli.inspect.request import Session

VOID = {"meta", "br", "p", "td", "th", "tr"}  # may stay open


class Reader(HTMLParser):
    """The elements of a page, the text of its scripts, and every attribute that could fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.fetching: list[str] = []
        self.scripts: list[str] = []
        self.inside = False
        self.tokens: list[tuple[dict[str, str | None], str]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = dict(attrs)
        unsafe = {"src", "href", "srcset", "action", "data"}
        self.fetching += [n for n in names if n in unsafe or n.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")
        if "data-t" in names:
            self.tokens.append((names, ""))
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.inside:
            names, text = self.tokens[-1]
            self.tokens[-1] = names, text + data


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    session = Session(record(tmp_path_factory.mktemp("page") / "run"))
    view, number = session.open(20, 2)
    return session.data(view, number, [])


def test_hostile_text_stays_text_and_nothing_is_fetched(data: dict[str, Any]) -> None:
    text = page(data)
    found = Reader(text)
    assert found.open == [] and found.fetching == []
    assert found.tags.count("script") == 2
    assert not {"img", "link", "iframe", "object", "base"} & set(found.tags)
    assert HOSTILE not in text and "\u2028" not in text and "\u202e" not in text
    assert "url(" not in text and "@import" not in text and "http:" not in text
    assert "default-src 'none'" in text
    embedded = json.loads(found.scripts[0])
    assert {key: embedded[key] for key in data} == data
    assert not set("<>&\u2028\u2029") & set(found.scripts[0])


def test_tokens_are_shaded_in_the_order_of_uniqueness_and_kept_ones_marked(
    data: dict[str, Any],
) -> None:
    found = iter(Reader(page(data)).tokens)
    for rollout in data["rollouts"]:
        shades: list[tuple[float, float]] = []
        for t, piece in enumerate(rollout["pieces"]):
            names, text = next(found)
            assert text == (piece if piece and not piece.strip(" ") else sign(piece))
            assert ("k" in str(names["class"]).split()) == rollout["kept"]["ict"][t]
            shade = float(str(names["style"]).removeprefix("--a:"))
            shades.append((rollout["stats"]["uniqueness"][t], shade))
        ordered = [shade for _, shade in sorted(shades)]
        assert ordered == sorted(ordered)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

DRIVER = """<script>addEventListener("load", () => {
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const told = [];
  const tell = () => told.push([document.getElementById("method").value,
    document.getElementById("by").value, document.querySelectorAll(".text .k").length,
    document.querySelectorAll(".on").length, document.getElementById("token").textContent]);
  tell(); press("ArrowRight"); press("ArrowRight"); press("ArrowDown"); tell();
  press("m"); press("s"); tell();
  document.querySelectorAll(".text .t")[5].click(); tell();
  document.title = JSON.stringify([told, document.images.length,
    performance.getEntriesByType("resource").length,
    document.documentElement.scrollWidth <= innerWidth]);
});</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium")
def test_in_a_browser_keys_and_taps_work_and_the_console_is_clean(
    data: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(page(data).replace("</body>", DRIVER + "</body>"), "utf-8")
    ended = subprocess.run(
        [
            *(CHROMIUM or "", "--headless=new", "--no-sandbox", "--disable-gpu", "--dump-dom"),
            *(f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr"),
            *("--window-size=500,800", (tmp_path / "page.html").as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "CONSOLE" not in ended.stderr
    title = ended.stdout.split("<title>")[1].split("</title>")[0].replace("&lt;", "<")
    title = title.replace("&gt;", ">").replace("&amp;", "&")
    told, images, fetched, fits = json.loads(title)
    assert (images, fetched, fits) == (0, 0, True)
    first, moved, turned, tapped = told
    kept = {m["name"]: m["kept"] for m in data["methods"]}
    assert first[:4] == ["ict", "uniqueness", kept["ict"], 0]
    assert moved[3] == 1 and "rollout 2, token 2 of" in moved[4]
    assert turned[:3] == ["entropy20", "entropy", kept["entropy20"]]
    assert "rollout 1, token 6 of" in tapped[4] and "group at position 6" in tapped[4]
