"""The report: its numbers are the result's, its text stays text, it needs nothing but itself."""

import re
from pathlib import Path
from typing import Any

import pytest
from made_results import HOSTILE, SWEPT, filled
from markup import Markup

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import write_report
from ictcli.compare.report.drawing import styles_of
from ictcli.compare.report.words import answer
from ictcli.compare.statistics import PairedDifference
from ictcli.tables.numbers import p_value, percent, points, rounded


class Reader(Markup):
    """Tables, ids, and the text."""

    MAY_STAY_OPEN = frozenset({"meta", "br", "p", "li", "dt", "dd", "path", "use"})

    def __init__(self, text: str) -> None:
        self.ids: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.rows: list[list[str]] = []
        self.code = self.text = ""
        super().__init__(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        super().handle_starttag(tag, attrs)
        names = {name: value or "" for name, value in attrs}
        self.ids += [names["id"]] if "id" in names else []
        if tag == "table":
            self.rows = self.tables[names["data-name"]] = []
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += f" {data}" if "small" in self.open else data
        if "code" in self.open:
            self.code += data
        if not {"script", "style"} & set(self.open):
            self.text += data


@pytest.fixture(scope="module")
def folder(found: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("report")
    write_report(Comparison.model_validate(found), place)
    assert sorted(path.name for path in place.iterdir()) == ["report.html", "report.md"]
    return place


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    return (folder / "report.html").read_text(encoding="utf-8")


def test_every_number_of_the_tables_is_the_results_rounded(
    page: str, found: dict[str, Any]
) -> None:
    tables = Reader(page).tables
    assert tables["differences"][1:] == [
        [
            *(metric, name.replace(":", " \u2212 ")),
            points(row["value"]) + " *" * (row["p_holm"] <= 0.05) + f" [{ends(row, '')}]",
            *(p_value(row["p_holm"]), f"[{ends(row, '_holm')}]", p_value(row["p"])),
            *(percent(row["detectable_holm"]), str(row["seeds"])),
        ]
        for metric, rows in found["differences"].items()
        for name, row in rows.items()
    ]
    (last,) = (row[1:] for row in tables["last-step"] if row[0] == "ict")
    for text, (name, curves) in zip(last, found["curves"].items(), strict=True):
        form = percent if name == "share_kept" else rounded
        mean, low, high = (form(curves["ict"][part][-1]) for part in ("mean", "low", "high"))
        assert text == f"{mean} [{low}, {high}]"
    assert points(-0.0001) == "0.0" and points(-0.0141) == "\u22121.4"
    assert p_value(0.00099) == "< 0.001" and rounded(0.15999) == "0.160" and rounded(0) == "0"


def ends(row: dict[str, Any], kind: str) -> str:
    return f"{points(row[f'low{kind}'])}, {points(row[f'high{kind}'])}"


def test_hostile_text_stays_text_and_nothing_is_fetched(page: str, folder: Path) -> None:
    read = Reader(page)
    assert read.open == [] and read.fetching == []
    assert not {"script", "img", "link", "iframe", "object", "base", "image"} & set(read.tags)
    assert HOSTILE not in page and "\u202e" not in page
    assert SWEPT in read.text and HOSTILE in read.code
    assert "http" not in page.replace("http-equiv", "") and "@import" not in page
    assert re.findall(r"url\((?!#)", page) == [] and "default-src 'none'" in page
    assert len(set(read.ids)) == len(read.ids)
    for name in re.findall(r'(?:url\(#|href="#)([^)"]+)', page):
        assert name in read.ids
    text = (folder / "report.md").read_text(encoding="utf-8")
    prose = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.S | re.M)
    assert "<" not in prose and "ict note=&lt;/script&gt;" in prose
    assert "$x\\_1$\\|\\`&amp;amp;\\`" in prose


def test_markdown_has_the_same_tables(page: str, folder: Path) -> None:
    text = (folder / "report.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    tables = Reader(page).tables
    assert len(lines) == sum(len(rows) + 1 for rows in tables.values())
    for row in tables["cost"][3:]:
        assert f"| {' | '.join(row)} |" in text


def difference(value: float, p: float, **changes: Any) -> dict[str, Any]:
    return filled(PairedDifference) | {"value": value, "p": p, "p_holm": p} | changes


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (difference(0.052, 0.01), "ict solves 5.2 points more of the problems than grpo"),
        (difference(-0.2, 0.01), "ict solves 20.0 points fewer of the problems than grpo"),
        (difference(0.2, 0.3), "ict is not distinguishable from grpo"),
        (difference(0.2, 0.01, seeds=1), "ict is not distinguishable from grpo"),
    ],
)
def test_the_answer_is_what_was_tested(
    found: dict[str, Any], row: dict[str, Any], words: str
) -> None:
    pair = {"variant": "ict", "rival": "grpo"}
    some = {**found, "contrasts": [pair], "differences": {"pass@1": {"ict:grpo": row}}}
    assert words in answer(Comparison.model_validate(some))
    one = answer(Comparison.model_validate({**some, "seeds": [0]}))
    assert one.startswith("One seed cannot tell methods apart")


def test_a_result_of_little_says_what_is_missing(found: dict[str, Any], tmp_path: Path) -> None:
    alone = {**found["variants"][2], "tuned": None, "runs": 1}
    found = {**found, "variants": [alone], "seeds": [0], "failed": [], "contrasts": []}
    found |= {"differences": {"pass@1": {}}, "device": {}, "tuned_key": None, "curves": {}}
    for name in ("training", "cost"):
        found[name] = {"grpo": found[name]["grpo"]}
    estimates = found["estimates"]["pass@1"]
    found["estimates"] = {"pass@1": {name: estimates[name] for name in ("(before)", "grpo")}}
    write_report(Comparison.model_validate(found), tmp_path)
    read = Reader((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert set(read.tables) == {"summary", "cost", "methods", "versions"}
    for words in ("nothing was compared", "No contrast", "recorded no metrics", "not tuned"):
        assert words in re.sub(r"\s+", " ", read.text)


def test_a_long_run_stays_small(found: dict[str, Any], tmp_path: Path) -> None:
    curves = {
        name: {label: {k: 20 * values for k, values in one.items()} for label, one in mine.items()}
        for name, mine in found["curves"].items()
    }
    long = {**found, "steps": 1200, "curves": curves}
    write_report(Comparison.model_validate(long), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 700_000 and "Each point stands for 8 steps" in page


def test_no_two_variants_are_drawn_alike(found: dict[str, Any]) -> None:
    """More methods than there are hues, and settings of them."""
    record = Comparison.model_validate(found).variants[0]
    methods = ("ict", "ict", "random", "ict", "ict", "random", *"abcdefghij", "grpo", "grpo", "j")
    variants = [
        record.model_copy(update={"label": f"{method} n={n}", "method": method})
        for n, method in enumerate(methods)
    ]
    styles, css = styles_of(variants)
    drawn = [(each.mark, css[each.slot][1]) for each in styles.values()]
    assert len(set(drawn)) == len(variants) + 1
