"""Recorded groups as one self-contained HTML file; model text is escaped.

The first group needs no scripts: its tokens are in the HTML, shaded and marked. `page.js` switches
step, prompt, method and shading, and shows the token pointed at, from the data in the page.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ictcli.errors import UserError
from ictcli.inspect.page_data import page_token, widths
from ictcli.inspect.view import MARKS, gradient_text
from ictcli.runs import is_run
from ictcli.text import BREAKS, figure
from ictcli.text import html_text as escape

MARK = '<meta name="generator" content="ictcli inspect">'
"""In the head of every page."""
HEAD_BYTES = 1024

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
TITLES = {
    "uniqueness": "uniqueness u = JS(p, P_avg)",
    "entropy": "entropy H1",
    "purity": "purity β",
    "weight": "weight in the loss",
    "prob": "probability p",
}
HINT = (
    "Point at a token, or move with the arrow keys: its statistics, who keeps it, and the group at "
    "its position."
)


def check_target(path: Path) -> None:
    """UserError where a page may not be written: over a folder, a device, a run's file, or a file
    that is no such page."""
    if path.is_dir():
        raise UserError(
            f"{path} is a folder, and --html takes a file.", f"--html {path}/group.html"
        )
    parent = next((parent for parent in path.parents if parent.exists()), None)
    if parent is not None and not parent.is_dir():
        raise UserError(f"{parent} is a file, not a folder.", "--html takes another place")
    run = next((parent for parent in path.absolute().parents if is_run(parent)), None)
    if run is not None and path.suffix.lower() not in (".html", ".htm"):
        raise UserError(
            f"{path} lies in the run {run}, and does not end in .html.", "--html group.html"
        )
    if not path.exists():
        return
    if not path.is_file():
        raise UserError(f"{path} is no regular file.", "--html group.html")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if MARK.encode() not in head:
        raise UserError(
            f"{path} is there already, and is no page that inspect wrote.",
            "--html takes another name, or delete it first",
        )


def page(data: dict[str, Any], groups: dict[str, Any]) -> str:
    """The page that opens at the group `data` (of `Session.data`); `groups` (of
    `page_data`) has those one can switch to."""
    here = Path(__file__)
    title = f"Step {data['step']}, prompt {data['prompt']} of {data['prompts']}"
    source = data["run"] or data["file"]
    wide = widths(data["rollouts"])
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        MARK,
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)} - ictcli inspect</title>",
        f"<style>\n{here.with_name('page.css').read_text(encoding='utf-8')}</style>",
        "</head>",
        "<body>",
        f"<header><h1 id=title>{escape(title)}</h1><p class=from>{escape(source)}</p></header>",
        _question(data),
        _controls(data),
        f'<main id=group tabindex=0 aria-label="Rollouts of {escape(title)}">',
        *(_rollout(data, rollout, wide) for rollout in data["rollouts"]),
        "</main>",
        f'<aside id=token aria-live="polite"><p class=hint>{HINT}</p></aside>',
        _methods(data, groups),
        f'<script type="application/json" id=data>{_embedded(data, groups)}</script>',
        f"<script>\n{here.with_name('page.js').read_text(encoding='utf-8')}</script>",
        "</body>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _embedded(data: dict[str, Any], groups: dict[str, Any]) -> str:
    """JSON that is safe inside HTML: pure ASCII without < > &."""
    titles = {name: TITLES[name] for name in _shadings(data)}
    text = json.dumps({**groups, "titles": titles}, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _shadings(data: dict[str, Any]) -> list[str]:
    return [name for name in TITLES if name == "weight" or name in data["tops"]]


def _question(data: dict[str, Any]) -> str:
    problem = data["problem"]
    notes = _notes(data["notes"])
    return (
        f"<section class=question><pre id=question>{escape(problem['prompt'], BREAKS)}</pre>"
        f"<p>gold <b id=gold>{escape(problem['gold'])}</b></p>"
        f"<div id=notes>{notes}</div></section>"
    )


def _notes(sentences: Sequence[str]) -> str:
    return "".join(f"<p class=note>{escape(sentence)}</p>" for sentence in sentences)


def _controls(data: dict[str, Any]) -> str:
    methods = "".join(
        f"<option{' selected' if m['name'] == data['shown'] else ''}>{escape(m['name'])}</option>"
        for m in data["methods"]
    )
    shadings = "".join(
        f'<option value="{name}"{" selected" if name == data["by"] else ""}>'
        f"{escape(TITLES[name])}</option>"
        for name in _shadings(data)
    )
    return (
        "<nav><span class=pick><label>step <select id=step>"
        f"<option>{data['step']}</option></select></label></span>"
        "<span class=pick>"
        "<button type=button id=before aria-label='prompt before'>&lsaquo;</button>"
        f"<label>prompt <select id=prompt><option>{data['prompt']}</option></select></label>"
        "<button type=button id=after aria-label='next prompt'>&rsaquo;</button></span>"
        f"<label>kept by <select id=method>{methods}</select></label>"
        f"<label>shaded by <select id=by>{shadings}</select></label>"
        "<span class=legend>0 <i></i> <span id=top>"
        f"{_top(data, data['by'], data['shown']):.3g}</span></span>"
        "<span class=legend><span class='t k'>kept</span></span>"
        "<span class=keys><kbd>←</kbd><kbd>→</kbd> token <kbd>↑</kbd><kbd>↓</kbd> rollout "
        "<kbd>m</kbd> method <kbd>s</kbd> shading <kbd>n</kbd><kbd>p</kbd> prompt "
        "<kbd>[</kbd><kbd>]</kbd> step</span>"
        "<noscript>Without scripts nothing can be switched.</noscript>"
        "</nav>"
    )


def _top(data: dict[str, Any], by: str, method: str) -> float:
    if by != "weight":
        return data["tops"][by]
    return next(m["weight_top"] for m in data["methods"] if m["name"] == method)


def _rollout(data: dict[str, Any], rollout: dict[str, Any], wide: Sequence[int]) -> str:
    method, by = data["shown"], data["by"]
    kept = rollout["kept"][method]
    values = rollout["weights"][method] if by == "weight" else rollout["stats"][by]
    top = _top(data, by, method)
    tokens = "".join(
        _token(piece, abs(value or 0.0) / top, keep=keep, t=t, width=wide[t])
        for t, (piece, value, keep) in enumerate(zip(rollout["pieces"], values, kept, strict=True))
    )
    read = f" ({escape(rollout['extracted'])})" if rollout["extracted"] else ""
    reason = f"<p class=note>{escape(rollout['reason'])}</p>" if rollout["reason"] else ""
    status = rollout["verdict"]
    cut = "" if rollout["finished"] else ", cut off"
    return (
        f'<article class="{escape(status)}"><h2><span class=n>{rollout["row"]}</span> '
        f"<span class=verdict>{MARKS.get(status, '?')} {escape(status)}{read}</span> "
        f"<span>reward {figure(rollout['reward'], 'g')}</span> "
        f"<span>advantage {figure(rollout['advantage'], '+.2f')}</span> "
        f"<span>{len(kept)} tokens{cut}, <span class=count>{sum(kept)}</span> kept</span></h2>"
        f'{reason}<p class=text data-row="{rollout["row"] - 1}">{tokens}</p></article>'
    )


def _token(piece: str, share: float, *, keep: bool, t: int, width: int) -> str:
    """One token; the sign of a line break is followed by a real one. `width` is that of the
    position."""
    broken = "<br>" if piece.endswith("\n") else ""
    mark = " k" if keep else ""
    shade = min(1.0, max(0.0, share))
    text = escape(page_token(piece))
    style = f"--a:{shade:.3f};--w:{width}"
    return f'<span class="t{mark}" data-t={t} style="{style}">{text}</span>{broken}'


def _methods(data: dict[str, Any], groups: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr><td>{escape(m['name'])}<td>{escape(m['about'])}<td>{m['kept']}<td>{m['share']:.1%}"
        f"<td>{figure(m['overlap_with_trained'], '.2f')}"
        f"<td>{escape(gradient_text(m['gradient']))}</tr>"
        for m in data["methods"]
    )
    absent = _notes([m["sentence"] for m in data["missing"]])
    candidates = data["candidates"]
    weights = [f"Candidates: {candidates['weights']}"] if candidates else []
    notes = _notes([*weights, *groups["summary"]])
    return (
        "<section class=methods><table><caption>What each method keeps of these rollouts</caption>"
        "<thead><tr><th>method<th>which<th>kept here<th>share of the step"
        "<th>overlap with trained (Jaccard)"
        "<th>of the step's gradient, %: + made likelier, - less likely"
        f"</thead><tbody id=methods>{rows}</tbody></table><div id=missing>{absent}</div>"
        f"{notes}</section>"
    )
