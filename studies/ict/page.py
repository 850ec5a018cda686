"""Print the tables of README.md and draw its figures, from the data in this folder.

    python studies/ict/page.py

strip.json is a group of SmolLM2-135M-Instruct at temperature 0.7, from the run of a step on the
question: `ictcli train smollm2-360m-gsm8k task=sums.csv method=ict warmup=0 steps=1 prompts=2
max_tokens=48 temperature=0.7`, then `ictcli inspect RUN --method ict --json`.
"""

import csv
import json
import statistics
from collections import defaultdict
from html import escape
from pathlib import Path

from scipy import stats

HERE = Path(__file__).parent
TASKS = {"quickstart": "ledger (old)", "ledger-easy": "ledger-easy (old)", "chain-compare": "chain"}
PAIRS = (
    *(("ict", "grpo"), ("ict", "random"), ("ict max_prob=0.99", "ict")),
    *(("random", "grpo"), ("entropy20", "grpo")),
)
PLACES = ("gsm8k", "ledger", "ledger-easy", "chain")
MONO = 'font-family="monospace" font-size="10"'
METHODS = ("ict", "ict max_prob=0.99", "ict score=u*h", "ict score=h", "entropy20", "random")


def runs() -> dict[tuple[str, str], dict[str, float]]:
    """Return pass@1 in percent by (recipe, method) and seed."""
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with (HERE / "runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            found[row["recipe"], row["method"]][row["seed"]] = 100 * float(row["pass@1"])
    return found


def differences() -> list[tuple[str, str, float, float, int]]:
    """Return (task, pair, mean difference, half of the 95 % interval, seeds), paired by seed."""
    found = runs()
    rows: list[tuple[str, str, float, float, int]] = []
    for recipe, task in TASKS.items():
        for one, other in PAIRS:
            first, second = found[recipe, one], found[recipe, other]
            gaps = [first[seed] - second[seed] for seed in first if seed in second]
            error = statistics.stdev(gaps) / len(gaps) ** 0.5
            half = float(stats.t.ppf(0.975, len(gaps) - 1)) * error
            rows.append((task, f"{one} - {other}", statistics.mean(gaps), half, len(gaps)))
    return rows


def placements(name: str) -> dict[str, dict[str, float]]:
    """Return where methods keep 10 % of the tokens of a batch, by method."""
    batch = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return {row["method"]: row for row in batch["placements"] if abs(row["keep"] - 0.1) < 1e-9}


def shapes(parts: list[str], height: int) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 {height}" font-family='
    style = '"sans-serif" font-size="12"><rect width="640" height="100%" fill="white"/>'
    return head + style + "".join(parts) + "</svg>\n"


def forest() -> str:
    """Draw the differences in pass@1 with their intervals."""
    parts: list[str] = []
    for place, (task, pair, mean, half, _) in enumerate(differences()):
        y, x = 24 + 22 * place, 420 + 4 * mean
        parts.append(f'<text x="8" y="{y + 4}">{task}: {pair}</text>')
        ends = f'x1="{x - 4 * half:.0f}" x2="{x + 4 * half:.0f}" y1="{y}" y2="{y}"'
        parts.append(f'<line {ends} stroke="black"/><circle cx="{x:.0f}" cy="{y}" r="4"/>')
    bottom = 24 + 22 * len(differences())
    parts.append(f'<line x1="420" x2="420" y1="8" y2="{bottom}" stroke="gray"/>')
    for points in (-60, -40, -20, 0, 20, 40):
        parts.append(f'<text x="{420 + 4 * points}" y="{bottom + 16}">{points:+d}</text>')
    return shapes(parts, bottom + 24)


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
    print("| rollouts | method | branches kept, % | sure, % | mean p |\n|---|---|---|---|---|")
    for name in PLACES:
        for method, row in placements(name).items():
            if method in METHODS:
                figures = 100 * row["branch_recall"], 100 * row["kept_sure"], row["kept_prob"]
                print("| {} | `{}` | {:.1f} | {:.0f} | {:.2f} |".format(name, method, *figures))
    print("\n| task | difference | points of pass@1 | seeds |\n|---|---|---|---|")
    for task, pair, mean, half, seeds in differences():
        if "(old)" in task:  # in the figure and runs.csv alone
            continue
        print(
            f"| {task} | {pair} | {mean:+.1f} [{mean - half:+.1f}, {mean + half:+.1f}] | {seeds} |"
        )
    (HERE / "forest.svg").write_text(forest(), encoding="utf-8")
    (HERE / "strip.svg").write_text(strip(), encoding="utf-8")
    (HERE / "by-entropy.svg").write_text(by_entropy("gsm8k"), encoding="utf-8")


if __name__ == "__main__":
    main()
