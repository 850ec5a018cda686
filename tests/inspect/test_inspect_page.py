"""The page: nothing of the model's text becomes markup, nothing is fetched, keys work."""

import json
from pathlib import Path

import pytest
from browser import dump, needs_chromium
from markup import Markup
from refusing import refused
from synthetic import HOSTILE, record

from ictcli.inspect.group import GroupView
from ictcli.inspect.page import Held, check_target, page, page_data, page_token
from ictcli.inspect.view import StepView, open_step


class Reader(Markup):
    """The text of a page's scripts, and of its <i>, with their attributes."""

    MAY_STAY_OPEN = frozenset({"meta", "br", "p", "td", "th", "tr"})

    def __init__(self, text: str) -> None:
        self.scripts: list[str] = []
        self.tokens: list[tuple[dict[str, str | None], str]] = []
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        if tag == "script":
            self.scripts.append("")
        if tag == "i":
            self.tokens.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.open[-1:] == ["i"]:
            names, text = self.tokens[-1]
            self.tokens[-1] = names, text + data


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> StepView:
    return open_step(record(tmp_path_factory.mktemp("page") / "run"), 20)


@pytest.fixture(scope="module")
def group(view: StepView) -> GroupView:
    return view.group(2)


@pytest.fixture(scope="module")
def held(view: StepView, group: GroupView) -> Held:
    return page_data(view, group)


@pytest.fixture(scope="module")
def made(group: GroupView, held: Held) -> str:
    return page(group, held)


def test_hostile_text_stays_text_and_nothing_is_fetched(made: str, held: Held) -> None:
    found = Reader(made)
    assert found.open == [] and found.fetching == []
    assert found.tags.count("script") == 2
    assert not {"img", "link", "iframe", "object", "base"} & set(found.tags)
    assert HOSTILE not in made and "\u2028" not in made and "\u202e" not in made
    assert "url(" not in made and "@import" not in made and "http:" not in made
    assert "default-src 'none'" in made
    read = json.loads(found.scripts[0])
    assert {**read, "titles": 0} == {**json.loads(json.dumps(held.data)), "titles": 0}
    assert not set("<>&\u2028\u2029") & set(found.scripts[0])


def test_tokens_are_shaded_by_uniqueness(made: str, group: GroupView) -> None:
    found = (token for token in Reader(made).tokens if "style" in token[0])
    for rollout in group.rollouts:
        shades: list[tuple[float | None, float]] = []
        for t, piece in enumerate(rollout.pieces):
            names, text = next(found)
            assert text == page_token(piece)
            assert ("class" in names) == rollout.kept["ict"][t]
            shade = float(str(names["style"]).removeprefix("--a:").partition(";")[0])
            shades.append((rollout.stats["uniqueness"][t], shade))
        ordered = [shade for _, shade in sorted(shades)]
        assert ordered == sorted(ordered)


def test_the_page_holds_every_group_to_four_digits(view: StepView, held: Held) -> None:
    steps = {step["step"]: iter(step["groups"]) for step in held.data["steps"]}
    assert [(group.step, group.prompt) for group in held.groups] == [
        (step, prompt) for step in (10, 20) for prompt in (1, 2, 3)
    ]
    for group in held.groups:
        for short, rollout in zip(next(steps[group.step])["rollouts"], group.rollouts, strict=True):
            assert short["tokens"] == rollout.tokens
            for name, values in rollout.stats.items():
                assert short["stats"][name] == pytest.approx(values, rel=5e-4)
            for name, kept in rollout.kept.items():
                assert short["kept"][name] == "".join("01"[keep] for keep in kept)
                weights = short["weights"][name]
                if not isinstance(weights, list):
                    weights = [weights * keep for keep in kept]
                assert weights == pytest.approx(rollout.weights[name], rel=5e-4)


def test_a_page_stays_small_and_says_what_is_not_in_it(
    view: StepView, group: GroupView, held: Held, made: str
) -> None:
    one = page_data(view, group, limit=len(made) // 2)
    assert {found.step for found in one.groups} <= {10, 20} and len(one.groups) < len(held.groups)
    assert "Other groups would make it too large" in one.summary[1]
    few = page_data(view, group, limit=10)
    assert [found.prompt for found in few.groups] == [2]
    assert few.summary[0] == "This page holds 1 of 3 prompts of step 20."
    assert held.summary == ["This page holds 6 prompts of steps 10 and 20."]


def test_only_a_page_of_its_own_is_overwritten(view: StepView, made: str, tmp_path: Path) -> None:
    run = view.recorded.run
    check_target(tmp_path / "deep" / "new.html")
    check_target(run / "group.html")
    written = tmp_path / "old.html"
    written.write_text(made, "utf-8")
    check_target(written)
    (tmp_path / "other.html").write_text("<html><body>ictcli inspect</body></html>")
    (tmp_path / "folder.html").mkdir()
    for target, words in (
        (tmp_path / "folder.html", "not a regular file"),
        (tmp_path / "other.html", "not written by ictcli inspect"),
        (run / "summary.json", "does not end in .html"),
    ):
        with refused(words):
            check_target(target)


DRIVER = """<script>addEventListener("load", () => {
  const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", { key }));
  const states = [];
  const tell = () => states.push([document.getElementById("method").value,
    document.getElementById("by").value, document.querySelectorAll(".text .k").length,
    document.querySelectorAll(".on").length, document.getElementById("token").textContent]);
  tell(); press("ArrowRight"); press("ArrowRight"); press("ArrowDown"); tell();
  press("m"); press("s"); tell();
  document.querySelectorAll(".text i")[5].click(); tell();
  const look = () => [document.getElementById("title").textContent,
    document.getElementById("gold").textContent,
    [...document.querySelectorAll(".text")].map((p) => [...p.querySelectorAll("i")].map(
      (t) => [t.textContent, t.classList.contains("k"), t.style.getPropertyValue("--a")])),
    [...document.querySelectorAll("article")].map((a) =>
      [a.className, a.querySelector("h2 span:last-child").textContent]),
    document.querySelector("#methods td:nth-child(3)").textContent];
  const looks = [look()];
  press("M"); press("S"); press("n"); looks.push(look());
  document.getElementById("before").click(); looks.push(look());
  press("["); looks.push(look());
  const pick = document.getElementById("prompt");
  pick.value = "1"; pick.dispatchEvent(new Event("change")); looks.push(look());
  press("["); looks.push(look());
  document.title = JSON.stringify([states, looks, document.images.length,
    performance.getEntriesByType("resource").length,
    document.documentElement.scrollWidth <= innerWidth]);
});</script>"""


@needs_chromium
def test_in_a_browser_keys_and_taps_work_and_the_console_is_clean(
    group: GroupView, held: Held, made: str, tmp_path: Path
) -> None:
    made = made.replace("</body>", DRIVER + "</body>")
    (states, looks, images, fetched, fits), said = dump(made, tmp_path, window="500,800")
    assert "CONSOLE" not in said
    assert (images, fetched, fits) == (0, 0, True)
    first, moved, turned, tapped = states
    kept = {method.name: method.kept for method in group.methods}
    assert first[:4] == ["ict", "uniqueness", kept["ict"], 0]
    assert moved[3] == 1 and "rollout 2, token 2 of" in moved[4]
    assert turned[:3] == ["entropy20", "entropy", kept["entropy20"]]
    assert "rollout 1, token 6 of" in tapped[4] and "group at position 6" in tapped[4]
    groups = {(one.step, one.prompt): one for one in held.groups}
    places = [(20, 2), (20, 3), (20, 2), (10, 2), (10, 1), (10, 1)]
    for place, (title, gold, texts, heads, kept_here) in zip(places, looks, strict=True):
        one = groups[place]
        assert (title, gold) == (f"Step {one.step}, prompt {one.prompt} of 3", "4")
        assert int(kept_here) == one.methods[0].kept
        by, method = ("entropy", "entropy20") if looks[0][2] is texts else ("uniqueness", "ict")
        for tokens, head, rollout in zip(texts, heads, one.rollouts, strict=True):
            assert head == [rollout.verdict, rollout.summary(method).split("  ")[-1]]
            assert [text for text, _, _ in tokens] == list(map(page_token, rollout.pieces))
            assert [keep for _, keep, _ in tokens] == rollout.kept[method]
            expected = [value / one.top(by, method) for value in rollout.values(by, method)]
            assert [float(shade) for _, _, shade in tokens] == pytest.approx(expected, abs=2e-3)
