"""A group of rollouts as text or JSON, for pipes and scripts."""

import os
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from ictcli.console.plain import narrate, output
from ictcli.console.table import print_columns, print_json, table
from ictcli.inspect.view import SYMBOLS
from ictcli.text import figure, sign, visible

MOST = 8
"""Tokens of the group with the highest values that are printed."""


def can_move() -> bool:
    """Whether single keys can be read from the terminal, and it can be drawn on."""
    draws = os.environ.get("TERM", "dumb") not in ("dumb", "unknown")
    return sys.stdin.isatty() and sys.stdout.isatty() and draws and find_spec("termios") is not None


def print_group(data: dict[str, Any], *, as_json: bool) -> None:
    """The group on stdout, as JSON or as text with kept tokens marked [like this]."""
    if as_json:
        print_json(data, indent=None)
        return
    shown = data["shown"]
    about = next(m["about"] for m in data["methods"] if m["name"] == shown)
    problem = data["problem"]
    source = data["run"] or data["file"]
    output(f"{source}: step {data['step']}, prompt {data['prompt']} of {data['prompts']}")
    output("", visible(problem["prompt"]), f"gold: {problem['gold']}", "")
    dense = all(all(rollout["kept"][shown]) for rollout in data["rollouts"])
    for rollout in data["rollouts"]:
        output(_heading(rollout, shown))
        text = "".join(map(visible, rollout["pieces"])) if dense else _marked(rollout, shown)
        output(f"   {text}", "")
    output(f"{'all tokens are' if dense else '[marked]:'} kept by {shown}, {about}", "")
    for method in data["methods"]:
        if method["trained"] and method["name"] != shown:
            output(f"{method['name']}: {method['about']}", "")
    _methods(data)
    _deepest(data)
    if data["candidates"]:
        _candidates(data)
    for missing in data["missing"]:
        narrate(missing["sentence"])
    if not data["tokenizer"]:
        narrate("Tokens are shown as ids: no tokenizer is here (--model names one).")


def _heading(rollout: dict[str, Any], method: str) -> str:
    kept = sum(rollout["kept"][method])
    read = f" ({rollout['extracted']})" if rollout["extracted"] else ""
    return (
        f"{rollout['row']}  {rollout['verdict']}{read}  reward {figure(rollout['reward'], 'g')}  "
        f"advantage {figure(rollout['advantage'], '+.2f')}  {len(rollout['tokens'])} tokens, "
        f"{kept} kept{'' if rollout['finished'] else ', cut off'}"
    )


def _marked(rollout: dict[str, Any], method: str) -> str:
    kept = rollout["kept"][method]
    return "".join(
        f"[{sign(piece)}]" if keep else visible(piece)
        for piece, keep in zip(rollout["pieces"], kept, strict=True)
    )


def _methods(data: dict[str, Any]) -> None:
    print_columns(
        data["methods"],
        {
            "method": lambda method: method["name"],
            "kept here": lambda method: str(method["kept"]),
            "share of the step": lambda method: f"{method['share']:.1%}",
            "overlap with trained": lambda method: figure(method["overlap_with_trained"], ".2f"),
        },
    )

    if known := [method for method in data["methods"] if method["gradient"]]:
        output("", "of the step's gradient, %: + on tokens made likelier, - less likely")
        kinds = known[0]["gradient"]
        columns = {kind: _share_of(kind) for kind in kinds}
        print_columns(known, {"method": lambda method: method["name"], **columns})


def _share_of(kind: str) -> Callable[[dict[str, Any]], str]:
    return lambda method: "+{:.1f} -{:.1f}".format(*(100 * x for x in method["gradient"][kind]))


def _deepest(data: dict[str, Any]) -> None:
    """The group's tokens with the highest values of the shading."""
    by, shown = data["by"], data["shown"]
    places: list[tuple[float, int, int]] = []
    for number, rollout in enumerate(data["rollouts"]):
        values = rollout["weights"][shown] if by == "weight" else rollout["stats"][by]
        places += [(-abs(v), number, t) for t, v in enumerate(values) if v]
    recorded = [name for name in SYMBOLS if name in data["rollouts"][0]["stats"]]
    body: list[list[str]] = []
    for _, number, t in sorted(places)[:MOST]:
        rollout = data["rollouts"][number]
        keepers = [name for name, kept in rollout["kept"].items() if kept[t]]
        body.append(
            [
                f"{rollout['row']}:{t + 1}",
                sign(rollout["pieces"][t]),
                *(figure(rollout["stats"][name][t]) for name in recorded),
                rollout["regime"][t] or "-" if rollout["regime"] else "-",
                ", ".join(keepers) or "-",
            ]
        )
    if body:
        output("", f"highest {by} of the group")
        table(["at", "token", *(SYMBOLS[name] for name in recorded), "regime", "kept by"], body)


def _candidates(data: dict[str, Any]) -> None:
    positions = {p["position"]: p for p in data["candidates"]["positions"]}
    for row, t in data["at"]:
        piece = sign(data["rollouts"][row - 1]["pieces"][t - 1])
        output("", f"candidates at {row}:{t}, where {piece} was sampled")
        candidates = positions[t]["rows"][str(row)]["candidates"]
        print_columns(
            list(zip(candidates, positions[t]["mean"], strict=True)),
            {
                "p": lambda pair: f"{pair[0]['p']:.4f}",
                "P_avg": lambda pair: f"{pair[0]['mean']:.4f}",
                "likeliest of p": lambda pair: sign(pair[0]["text"]),
                " ": lambda pair: "",
                "P_avg ": lambda pair: f"{pair[1]['mean']:.4f}",
                "likeliest of P_avg": lambda pair: sign(pair[1]["text"]),
            },
        )
    gaps = [p["recorded_gap"] for p in data["candidates"]["positions"] if p["recorded_gap"]]
    narrate(data["candidates"]["weights"])
    if gaps:
        narrate(f"p of a sampled token differs from the recorded by at most {max(gaps):.2g}.")
