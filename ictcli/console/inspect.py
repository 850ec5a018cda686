"""Prints a group of rollouts as text or JSON, for pipes and scripts."""

import os
import sys
from dataclasses import asdict

from ictcli.console.lines import narrate, output
from ictcli.console.table import print_json, print_table
from ictcli.inspect.group import GroupView, MethodView, RolloutView
from ictcli.tables import text_table
from ictcli.tables.numbers import shown_share
from ictcli.text import figure, sign, visible

TOP_TOKENS = 8
"""Number of tokens printed in the table of those with the highest values in the group."""


def can_move() -> bool:
    """Return whether the terminal can be read key by key and drawn on."""
    draws = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and draws


def print_group(group: GroupView, *, as_json: bool) -> None:
    """Print the group on stdout, as JSON or as text with kept tokens marked [like this]."""
    if as_json:
        print_json(asdict(group), indent=None)
        return
    shown = group.shown
    output(f"{group.run}: step {group.step}, prompt {group.prompt} of {group.prompts}")
    output("", visible(group.problem["prompt"]), f"gold: {group.problem['gold']}", "")
    dense = all(all(rollout.kept[shown]) for rollout in group.rollouts)
    for rollout in group.rollouts:
        read = f" ({rollout.extracted})" if rollout.extracted else ""
        output(f"{rollout.row}  {rollout.verdict}{read}  {rollout.summary(shown)}")
        output(f"   {''.join(_pieces(rollout, shown, marked=not dense))}", "")
    about = group.method(shown).about
    output(f"{'all tokens are' if dense else '[marked]:'} kept by {shown}, {about}", "")
    for method in group.methods:
        if method.trained and method.name != shown:
            output(f"{method.name}: {method.about}", "")
    _methods(group.methods)
    _deepest(group)
    narrate(*group.missing.values())
    if not group.tokenizer:
        narrate("Tokens are shown as ids, as no tokenizer was found (use --model=MODEL).")


def _pieces(rollout: RolloutView, method: str, *, marked: bool) -> list[str]:
    pairs = zip(rollout.pieces, rollout.kept[method], strict=True)
    return [f"[{sign(piece)}]" if keep and marked else visible(piece) for piece, keep in pairs]


def _methods(methods: list[MethodView]) -> None:
    rows = [
        {
            "method": method.name,
            "kept here": str(method.kept),
            "share of the step": shown_share(method.share),
            "overlap with trained": figure(method.overlap_with_trained, ".2f"),
        }
        for method in methods
    ]
    print_table(text_table(rows))


def _deepest(group: GroupView) -> None:
    if deepest := group.deepest(group.by, group.shown)[:TOP_TOKENS]:
        output("", f"highest {group.by} of the group")
        rows = [
            {
                "at": f"{rollout.row}:{t + 1}",
                "token": sign(rollout.pieces[t]),
                **rollout.figures(t),
                "regime": (rollout.regime[t] if rollout.regime else None) or "-",
                "kept by": ", ".join(name for name, kept in rollout.kept.items() if kept[t]) or "-",
            }
            for rollout, t in deepest
        ]
        print_table(text_table(rows))
