"""Recorded groups as one self-contained HTML file; model text is escaped.

The first group needs no scripts: its tokens are in the HTML, shaded and marked. Every group the
page holds is a template of `page.html`; `page.js` puts the one that is asked for in place, paints
it, and shows the token pointed at.
"""

import json
from itertools import repeat
from pathlib import Path

from markupsafe import Markup

from ictcli.errors import UserError
from ictcli.inspect.group import GroupView, RolloutView
from ictcli.inspect.page_data import Held, page_token, widths
from ictcli.runs import is_run
from ictcli.tables.pages import render
from ictcli.text import html_text

MARK = '<meta name="generator" content="ictcli inspect">'
HEAD_BYTES = 1024

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
TITLES = {
    "uniqueness": "uniqueness u = JS(p, P_avg)",
    "entropy": "entropy H1",
    "purity": "purity β",
    "weight": "weight in the loss",
    "prob": "probability p",
}


def check_target(path: Path) -> None:
    """UserError where a page may not be written: over a folder, a device, a run's file, or a file
    that is no such page."""
    above = next((parent for parent in path.parents if parent.exists()), Path())
    run = next((parent for parent in path.absolute().parents if is_run(parent)), None)
    other = "--html group.html"
    if path.is_dir():
        why, other = "is a folder, and --html takes a file", f"--html {path}/group.html"
    elif not above.is_dir():
        why = f"would lie in {above}, which is a file, not a folder"
    elif run is not None and path.suffix.lower() not in (".html", ".htm"):
        why = f"lies in the run {run}, and does not end in .html"
    elif not path.exists():
        return
    elif not path.is_file():
        why = "is no regular file"
    else:
        with path.open("rb") as file:
            if MARK.encode() in file.read(HEAD_BYTES):
                return
        why = "is there already, and is no page that inspect wrote"
        other = "--html takes another name, or delete it first"
    raise UserError(f"{path} {why}.", other)


def page(group: GroupView, held: Held) -> str:
    """The page that opens at `group`, with the groups one can switch to."""
    here = Path(__file__).parent
    weights = [f"Candidates: {group.candidates['weights']}"] if group.candidates else []
    shadings = {name: TITLES[name] for name in TITLES if name == "weight" or name in group.tops}
    return render(
        here / "page.html",
        "html",
        group=group,
        held=held.groups,
        about=[*weights, *held.summary],
        titles=shadings,
        mark=Markup(MARK),
        policy=Markup(POLICY),
        tokens=_tokens,
        data=_embedded({**held.data, "titles": shadings}),
        style=Markup((here / "page.css").read_text(encoding="utf-8")),
        script=Markup((here / "page.js").read_text(encoding="utf-8")),
    )


def _embedded(data: dict[str, object]) -> Markup:
    """JSON that is safe inside HTML: pure ASCII without < > &."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _tokens(group: GroupView, rollout: RolloutView, painted: bool) -> Markup:
    """The tokens of a rollout, each an element; with `painted` shaded and marked as at first. The
    sign of a line break is followed by a real one."""
    top = group.top(group.by, group.shown)
    values, kept = rollout.values(group.by, group.shown), rollout.kept[group.shown]
    wide = widths(group) if painted else repeat(0)
    parts: list[str] = []
    for piece, value, keep, width in zip(rollout.pieces, values, kept, wide, strict=False):
        mark = " class=k" * keep
        style = f'{mark} style="--a:{min(1.0, value / top):.3f};--w:{width}"' * painted
        broken = "<br>" * piece.endswith("\n")
        parts.append(f"<i{style}>{html_text(page_token(piece))}</i>{broken}")
    return Markup("".join(parts))
