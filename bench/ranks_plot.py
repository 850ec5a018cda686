"""The memory of a process among several, drawn in the colours of a comparison's report, light or
dark as the reader has it: `python bench/ranks_plot.py bench/results/ranks-memory.json FILE.svg`."""

import json
import sys
from pathlib import Path
from typing import Any

from ictcli.compare.report import drawing
from ictcli.compare.report.drawing import DASHES, MARKS, Axis, Chart, Label, axis
from ictcli.tables import pages

REPORT = Path(drawing.__file__).parent


def chart(found: dict[str, Any]) -> Chart:
    """Peaks over 1/N, and the lines through them; of one process, which spreads nothing, hollow."""
    names = {0.0: "∞", **{1 / int(n): n for n in found["MiB"]}}
    across = Axis("processes N, at 1/N", 0.0, 1.04, list(names.items()))
    peaks = [peak for phases in found["MiB"].values() for peak in phases.values()]
    drawn = Chart("MiB of a process by N", across, axis("MiB", peaks, 0.0))
    for row, (phase, (constant, slope)) in enumerate(found["lines"].items()):
        colour, mark, dashes = f"var(--m{row})", MARKS[row], DASHES[row % len(DASHES)]
        drawn.curve(
            [(0, constant), (0.5, constant + slope / 2)], colour, " ".join(map(str, dashes))
        )
        for n, phases in found["MiB"].items():
            drawn.mark(1 / int(n), phases[phase], mark, colour, hollow=n == "1")
        x, y = drawn.left + 10, drawing.TOP + 9 + 14 * row
        drawn.paths.append(drawing.Path("mark", mark, colour, at=(x, y)))
        drawn.labels.append(Label(x + 9, y + 4, phase, anchor="start"))
    return drawn


def svg(drawn: Chart) -> str:
    css = (REPORT / "report.css").read_text(encoding="utf-8")
    rules = [css[: css.index("* {")], *(line for line in css.splitlines() if line[:4] == "svg ")]
    rules.append("svg { font: 10.5px var(--plain); fill: var(--ink); }")
    macros: Any = pages._environment(REPORT, "html").get_template("blocks.html.jinja").module
    head, body = str(macros.drawing(drawn)).strip().split(">", 1)
    head = head.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    back = '<rect width="100%" height="100%" style="fill: var(--back)"/>'
    return "\n".join([f"{head}><style>", *rules, f"</style>{back}{body}\n"])


if __name__ == "__main__":
    source, path = map(Path, sys.argv[1:])
    found = json.loads(source.read_text(encoding="utf-8"))
    path.write_text(svg(chart(found)), encoding="utf-8")
