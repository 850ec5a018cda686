"""Make the data of the recipe smollm2-135m-invoices, always the same.

    python bench/invoices.py

Each row is a line of an invoice, and its due date and total as `2026-12-31 9.90`. Most lines hold
another date, and a third of them the sum before tax. It writes examples for supervised steps,
problems to train on and held-out ones, each drawn with a seed of its own.
"""

import calendar
import json
import random
from datetime import date, timedelta
from pathlib import Path

MONTHS = calendar.month_name[1:]
FIRMS = [
    "Baker & Sons",
    "Nordlicht",
    "Green Power",
    "City Water",
    "Hill Dental",
    "Costa Garage",
    "BlueNet",
    "Maple Books",
    "Sato Tools",
    "Lind Movers",
    "Old Mill",
    "Print House",
]
ROOT = Path(__file__).parent.parent
FILES = {
    "recipes/data/invoices-examples.jsonl": (128, 1),
    "recipes/data/invoices-train.jsonl": (512, 2),
    "recipes/data/invoices-test.jsonl": (128, 5),
    "studies/ict/invoices-heldout.jsonl": (384, 7),
}
"""Rows and seed of each file."""


def written_date(rng: random.Random, day: date) -> str:
    n, month = day.day, MONTHS[day.month - 1]
    end = "th" if 10 < n < 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return rng.choice(
        [
            f"{n} {month} {day.year}",
            f"{month} {n}, {day.year}",
            f"{month} {n}{end}, {day.year}",
            f"{n} {month[:3]} {day.year}",
        ]
    )


def amount(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02}"


def row(rng: random.Random) -> dict[str, str]:
    issued = date(2026, 1, 1) + timedelta(rng.randrange(600))
    due = issued + timedelta(rng.randrange(7, 61))
    cents = rng.randrange(1000, 60000)
    firm, on, by = rng.choice(FIRMS), written_date(rng, issued), written_date(rng, due)
    form = rng.choice(["{} euros", "EUR {}"])
    total, net = form.format(amount(cents)), form.format(amount(round(cents / 1.2)))
    line = rng.choice(
        [
            f"{firm}, invoice of {on}: {total}, due by {by}.",
            f"Please pay {total} to {firm} by {by}. Invoice of {on}.",
            f"{firm}: {total}, billed on {on}, due on {by}.",
            f"{firm}, {on}. Net {net}, with tax {total}. Pay by {by}.",
            f"Due {by}: {total}, {firm}, invoice of {on}.",
            f"{firm}, {on}: {net} plus tax, in all {total}, payable by {by}.",
        ]
    )
    return {"prompt": line, "gold": f"{due.isoformat()} {amount(cents)}"}


def main() -> None:
    seen: set[str] = set()
    for name, (rows, seed) in FILES.items():
        rng = random.Random(seed)
        lines: list[str] = []
        while len(lines) < rows:
            made = row(rng)
            if made["prompt"] not in seen:
                seen.add(made["prompt"])
                lines.append(json.dumps(made) + "\n")
        (ROOT / name).write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
