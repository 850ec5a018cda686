"""The report in a browser: tables sort and download, and nothing is fetched."""

import csv
import io
from pathlib import Path
from typing import Any

from browser import dump, needs_chromium

from ictcli.compare.comparison import Comparison
from ictcli.compare.report import write_report

DRIVER = """<script>addEventListener("load", async () => {
  const table = document.querySelector('table[data-name="differences"]');
  const order = () => [...table.tBodies[0].rows].map((row) =>
    JSON.parse(row.cells[2].dataset.v));
  const head = () => table.tHead.rows[0].cells[2];
  const orders = [order()];
  for (let turn = 0; turn < 3; turn++) {
    head().querySelector("button").click();
    orders.push(order());
  }
  let blob = null;
  URL.createObjectURL = (made) => { blob = made; return "#"; };
  HTMLAnchorElement.prototype.click = function () { this.clicked = true; };
  table.closest("figure").querySelector(".csv").click();
  const drawn = [...document.querySelectorAll(".panel svg")].filter((s) =>
    s.getBoundingClientRect().height > 60 && s.querySelectorAll("path").length > 5).length;
  const places = [...document.querySelectorAll(".scroll")];
  const goOn = places.filter((one) => one.scrollWidth > one.clientWidth + 1);
  let told = [];
  for (let turn = 0; turn < 7 && told.length !== goOn.length; turn++) {
    await new Promise((done) => setTimeout(done, 200));
    told = places.filter((one) => one.closest("figure").querySelector(".wide").offsetWidth > 0);
  }
  const first = [...document.querySelectorAll("main > section")].map((one) => one.id);
  document.title = JSON.stringify([goOn.length,
    told.length === goOn.length && told.every((one) => goOn.includes(one)), first.slice(0, 2),
    orders, await blob.text(), drawn,
    document.querySelectorAll(".panel").length,
    document.querySelectorAll("table").length, document.querySelectorAll(".csv").length,
    document.images.length, performance.getEntriesByType("resource").length,
    document.documentElement.scrollWidth <= innerWidth]);
});</script>"""


@needs_chromium
def test_tables_sort_and_download(found: dict[str, Any], tmp_path: Path) -> None:
    write_report(Comparison.model_validate(found), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    told, said = dump(page.replace("</body>", DRIVER + "</body>"), tmp_path, window="500,900")
    assert "CONSOLE" not in said
    wide, says_so, first, *others = told
    assert first == ["answer", "differences"]
    orders, text, drawn, panels, tables, buttons, images, fetched, fits = others
    assert 0 < wide < tables and says_so  # a table that scrolls says it, and no other
    assert drawn == panels >= 8 and tables == buttons >= 6
    assert (images, fetched, fits) == (0, 0, True)
    rows = [each for of in found["differences"].values() for each in of.values()]
    values = [each["value"] for each in rows]
    falling = sorted(values, reverse=True)
    assert orders == [values, falling, falling[::-1], values]
    assert [float(row["points"]) for row in csv.DictReader(io.StringIO(text))] == values
