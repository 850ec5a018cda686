"""What `ictcli check` prints."""

from dataclasses import asdict

from ictcli.console.lines import output
from ictcli.console.table import print_json, print_table
from ictcli.tables import Column, Table
from ictcli.tables.numbers import counted
from ictcli.text import duration, middle_cut
from ictcli.train.checked import Checked, Tried

LONGEST = 1200
"""Characters of a prompt that are shown, and of an answer a quarter of them."""


def print_check(checked: Checked, command: str, *, as_json: bool) -> None:
    """Print what was found, the verdict, and the command to type."""
    tried = checked.tried
    seconds = tried.load_s + tried.time.seconds if tried else 0.0
    if as_json:
        record = asdict(checked)
        record |= {"memory": checked.memory.json(), "command": command}
        if tried:
            record["tried"]["seconds"] = seconds
        print_json(record)
        return
    train = (
        counted(checked.train, "problem") if checked.train else "problems made as they are drawn"
    )
    output(
        f"data: {checked.name}, {train} to train on, {checked.heldout:,} others to evaluate on.",
        f"method: {checked.method}, at lr={checked.lr:g}; method=NAME takes another of ictcli "
        "methods, and lr=... its rate.",
        *(f"note: {note}" for note in checked.notes),
    )
    if tried:
        _tried(tried)
    output("", f"memory: {checked.memory.sentence or 'the limit of this machine is not known.'}")
    if tried:
        output(
            f"time: about {duration(seconds)}: {duration(tried.load_s)} to load, "
            f"{tried.time.parts()}, by a part of the first step."
        )
    output("", f"verdict: {checked.verdict}", f"next: {command}")


def _tried(tried: Tried) -> None:
    for number, shown in enumerate(tried.shown, 1):
        output(
            "",
            f"prompt {number} of {len(tried.shown)}, problem {middle_cut(shown.problem, 60)}, "
            f"{counted(shown.tokens, 'token')}, as the model reads it:",
            *(f"| {line}" for line in middle_cut(shown.text, LONGEST).split("\n")),
            f"the right answer: {middle_cut(shown.gold, 60)}",
            f"its greedy answer, {shown.verdict}:",
            *(f"| {line}" for line in middle_cut(shown.answer.strip(), LONGEST // 4).split("\n")),
        )
    counts = {"greedy": tried.greedy, "sampled": tried.sampled}
    columns = [Column[str]("answers", lambda kind: kind, str)]
    columns += [
        Column[str](name, lambda kind, name=name: counts[kind][name], str) for name in tried.greedy
    ]
    output("")
    print_table(Table(columns, list(counts)))
    groups = tried.groups
    level = f"{groups.all_right} are all right, {groups.all_wrong} all wrong"
    others = f"; of the others {level}" if groups.with_signal < groups.total else ""
    output(
        f"groups: {groups.with_signal} of {groups.total} have unequal rewards, and teach "
        f"something{others}."
    )
    for name, mean in tried.rewards.items():
        output(f"reward {name}: {'none given' if mean is None else f'{mean:.3g} on average'}.")
    for reason, number in tried.reasons.items():
        output(f"unparsed: {number} x {reason}.")
