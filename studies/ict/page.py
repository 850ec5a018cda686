"""Print the tables of README.md and draw its figures, from the data in this folder.

    python studies/ict/page.py

strip.json is a group of SmolLM2-135M-Instruct at temperature 0.7, from the run of a step on the
question: `ictcli train smollm2-360m-gsm8k model=HuggingFaceTB/SmolLM2-135M-Instruct task=sums.csv
method=ict warmup=0 steps=1 prompts=2 max_tokens=48 temperature=0.7`, then `ictcli inspect RUN
--method ict --json`.
"""

import csv
import json
import statistics
from collections import defaultdict
from html import escape
from pathlib import Path
from typing import Any

import training
from scipy import stats

HERE = Path(__file__).parent
TASKS = {"chain-compare": "chain", "quickstart": "ledger (old)", "ledger-easy": "ledger-easy (old)"}
PAIRS = (
    ("grpo lr=8e-4", "grpo"),
    *(("ict", "grpo"), ("ict", "random"), ("random", "grpo"), ("entropy20", "grpo")),
    *(("ict max_prob=0.99", "ict"), ("ict max_prob=0.99", "random max_prob=0.99")),
)
BUILT_IN = ("ledger", "chain")
MONO = 'font-family="monospace" font-size="10"'
METHODS = (
    *("grpo", "ict", "ict max_prob=0.99", "ict score=h", "entropy20"),
    *("random", "random max_prob=0.99"),
)
Row = dict[str, Any]


def runs() -> dict[tuple[str, str], dict[str, float]]:
    """Return pass@1 in percent by (recipe, method) and seed."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with (HERE / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["recipe"], row["method"]][row["seed"]] = 100 * float(row["pass@1"])
    return found


def differences() -> list[tuple[str, float, float, float]]:
    """Return (name, mean difference, ends of the 95 % interval): those of invoices, by training.py,
    and those of the older runs, paired by seed."""
    rows: list[tuple[str, float, float, float]] = []
    for (one, other), (mean, ends, *_) in zip(
        training.CONTRASTS, training.contrasts(), strict=True
    ):
        rows.append((f"invoices: {one} - {other}", mean, *ends))
    found = runs()
    for recipe, task in TASKS.items():
        for one, other in PAIRS:
            first, second = found[recipe, one], found[recipe, other]
            gaps = [first[seed] - second[seed] for seed in first if seed in second]
            if not gaps:
                continue
            error = statistics.stdev(gaps) / len(gaps) ** 0.5
            half, mean = float(stats.t.ppf(0.975, len(gaps) - 1)) * error, statistics.mean(gaps)
            rows.append((f"{task}: {one} - {other}", mean, mean - half, mean + half))
    return rows


def placements(name: str) -> dict[str, Row]:
    """Return where methods keep 10 % of the tokens of a batch, by method; grpo keeps all."""
    batch = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    whole = {"branch_recall": 1.0, "kept_sure": batch["sure"]}
    dense = {key: {"value": value} for key, value in (whole | {"kept_prob": batch["prob"]}).items()}
    rows = {row["method"]: row for row in batch["placements"] if abs(row["keep"] - 0.1) < 1e-9}
    return {"grpo": dense, **rows}


def cell(span: dict[str, float]) -> str:
    """Return a share with its interval, in percent."""
    value, *ends = (f"{100 * span[key]:.1f}" for key in ("value", "low", "high") if key in span)
    return f"{value} [{', '.join(ends)}]" if ends else value


def table() -> str:
    """Return where each method keeps tokens and what training with it reached, as Markdown."""
    columns = [training.reached(name) for name in ("branch_recall", "pass@1")]
    heads = (
        *("method", "GSM8K: branches, %", "sure, %", "mean p"),
        *(f"{name}: branches, %" for name in (*BUILT_IN, "invoices")),
        "invoices: pass@1, %",
    )
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    real, others = placements("gsm8k"), [placements(name) for name in BUILT_IN]

    def kept(row: Row) -> list[str]:
        sure = "0" if "max_prob" in row.get("method", "") else cell(row["kept_sure"])
        return [cell(row["branch_recall"]), sure, f"{row['kept_prob']['value']:.2f}"]

    for method in METHODS:
        trained = [[points[method][seed] for seed in seeds] for points, seeds in columns
                   if method in points]  # fmt: skip
        cells = (
            *(f"`{method}`", *kept(real[method])),
            *(f"{100 * place[method]['branch_recall']['value']:.1f}" for place in others),
            *([f"{statistics.mean(each):.1f}" for each in trained] or ["", ""]),
        )
        lines.append("| " + " | ".join(cells) + " |")
    cool = kept(placements("gsm8k-cool")["ict"])
    lines.append("| " + " | ".join(["`ict`, temperature 0.6", *cool]) + " |||||")
    return "\n".join(lines)


def shapes(parts: list[str], height: int, width: int = 640) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family='
    style = f'"sans-serif" font-size="12"><rect width="{width}" height="100%" fill="white"/>'
    return head + style + "".join(parts) + "</svg>\n"


def forest() -> str:
    """Draw the differences in pass@1 with their intervals."""
    parts: list[str] = []
    zero, scale, shown = 410, 2.4, differences()
    for place, (name, mean, low, high) in enumerate(shown):
        y, x = 24 + 22 * place, zero + scale * mean
        bold = ' font-weight="bold"' if name.startswith("invoices") else ""
        parts.append(f'<text x="8" y="{y + 4}"{bold}>{name}</text>')
        ends = f'x1="{zero + scale * low:.0f}" x2="{zero + scale * high:.0f}" y1="{y}" y2="{y}"'
        parts.append(f'<line {ends} stroke="black"/><circle cx="{x:.0f}" cy="{y}" r="4"/>')
        figures = f"{mean:+.1f} [{low:+.1f}, {high:+.1f}]"
        parts.append(f'<text x="605" y="{y + 4}"{bold}>{figures}</text>')
    bottom = 24 + 22 * len(shown)
    parts.append(f'<line x1="{zero}" x2="{zero}" y1="8" y2="{bottom}" stroke="gray"/>')
    for points in (-60, -40, -20, 0, 20, 40, 60):
        parts.append(
            f'<text x="{zero - 10 + scale * points:.0f}" y="{bottom + 16}">{points:+d}</text>'
        )
    return shapes(parts, bottom + 24, 770)


def by_entropy(name: str) -> str:
    """Draw the share kept of each tenth of the tokens by entropy."""
    parts: list[str] = []
    shown = {"ict": "black", "ict score=h": "#0072b2", "random": "#999999"}
    for method, colour in shown.items():
        shares = placements(name)[method]["by_entropy"]
        points = " ".join(f"{60 + 56 * i},{230 - 210 * s:.0f}" for i, s in enumerate(shares))
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    for place, (method, colour) in enumerate(shown.items()):
        parts.append(f'<text x="260" y="{30 + 18 * place}" fill="{colour}">{method}</text>')
    for share in (0, 0.5, 1):
        parts.append(f'<text x="10" y="{234 - 210 * share}">{100 * share:.0f} %</text>')
    parts.append('<text x="60" y="12">share of the tokens that is kept</text>')
    parts.append('<text x="60" y="255">surest tenth of the tokens</text>')
    parts.append('<text x="470" y="255">least sure tenth</text>')
    return shapes(parts, 264)


def strip() -> str:
    """Draw the responses to one question: branches outlined, the tokens that ICT keeps filled."""
    group = json.loads((HERE / "strip.json").read_text(encoding="utf-8"))
    parts: list[str] = []
    for row, tokens in enumerate(group["responses"]):
        x, y = 8.0, 24 + 24 * row
        for piece, kept, branch in tokens:
            text = piece.replace("\n", "\u21b5").replace(" ", "\u00b7")
            width = 6 * len(text) + 4
            if x + width > 636:
                break
            fill, edge = "#f0b400" if kept else "white", "#0072b2" if branch else "none"
            box = f'x="{x:.0f}" y="{y - 14}" width="{width}" height="19"'
            parts.append(f'<rect {box} fill="{fill}" stroke="{edge}" stroke-width="2"/>')
            parts.append(f'<text x="{x + 2:.0f}" y="{y}" {MONO}>{escape(text)}</text>')
            x += width + 1
    y = 24 + 24 * len(group["responses"])
    for x, fill, edge, name in (
        (8, "#f0b400", "none", "kept by ICT"),
        (150, "white", "#0072b2", "branch"),
    ):
        parts.append(
            f'<rect x="{x}" y="{y}" width="14" height="14" fill="{fill}" stroke="{edge}"/>'
        )
        parts.append(f'<text x="{x + 20}" y="{y + 12}">{name}</text>')
    return shapes(parts, y + 24)


def main() -> None:
    print(table())
    (HERE / "forest.svg").write_text(forest(), encoding="utf-8")
    (HERE / "strip.svg").write_text(strip(), encoding="utf-8")
    (HERE / "by-entropy.svg").write_text(by_entropy("gsm8k"), encoding="utf-8")


if __name__ == "__main__":
    main()
