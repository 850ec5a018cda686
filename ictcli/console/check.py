"""The output of `ictcli check`: answers as they are sampled, then the findings."""

import sys
from dataclasses import asdict

from ictcli.console.lines import output
from ictcli.console.table import print_json
from ictcli.tables.numbers import counted
from ictcli.text import duration, middle_cut
from ictcli.train.checked import Answer, Checked, ShownPrompt, Training, Tried

HOUR = 3600
LONGEST = 1200
"""Maximum number of characters shown of a prompt; of its first answer, a quarter of this."""
SHOWN, TAIL = 3, 60
"""Number of prompts to show, and number of characters shown from the end of other answers."""


class Shown:
    """Prints the prompts and answers of a check while it runs."""

    def __init__(self) -> None:
        self._prompts, self._first = 0, False

    def __call__(self, part: Training | ShownPrompt | Answer) -> None:
        if isinstance(part, Training):
            self._training(part)
        elif isinstance(part, ShownPrompt):
            self._prompt(part)
        else:
            self._answer(part)
        sys.stdout.flush()  # so that a pipe, too, shows each answer at once

    def _training(self, training: Training) -> None:
        train = counted(training.train, "problem") if training.train else "generated problems"
        output(
            f"data: {training.name}, {train} to train on, {training.heldout:,} others to evaluate "
            "on.",
            f"method: {training.method}, lr={training.lr:g}; method=NAME lr=RATE changes them, and "
            "ictcli methods lists the methods.",
            *(f"note: {note}" for note in training.notes),
        )

    def _prompt(self, prompt: ShownPrompt) -> None:
        self._prompts += 1
        self._first = self._prompts <= SHOWN
        output("", f"problem {middle_cut(prompt.problem, 60)}, gold {middle_cut(prompt.gold, 60)}:")
        if self._first:
            output(
                f"the prompt as the model reads it, {counted(prompt.tokens, 'token')}:",
                *(f"| {line}" for line in middle_cut(prompt.text, LONGEST).split("\n")),
            )

    def _answer(self, answer: Answer) -> None:
        gold = f", gold {middle_cut(answer.gold, 60)}"
        read = f"read {middle_cut(answer.read, 60)}" if answer.read else "nothing read"
        if not answer.read and answer.reason:
            read += f" ({middle_cut(answer.reason, 60)})"
        size = counted(answer.tokens, "token") + ", cut at max_tokens" * answer.cut
        text = answer.text.strip()
        if self._first:  # the first answer to a prompt that is shown
            self._first = False
            output(
                "its first answer:",
                *(f"| {line}" for line in middle_cut(text, LONGEST // 4).split("\n")),
            )
            output(f"{answer.status}: {read}{gold}; {size}")
            return
        end = " ".join(text[-TAIL:].split())
        output(f"{answer.status}: {read}{gold}; {size}: {'...' * (len(text) > TAIL)}{end}")


def print_check(checked: Checked, command: str, *, as_json: bool) -> None:
    """Print the counts of the answers, the verdict and the next command."""
    tried = checked.tried
    seconds = tried.load_s + tried.time.seconds if tried and tried.time else None
    if as_json:
        record = asdict(checked)
        record |= {"memory": checked.memory.json(), "command": command}
        if tried:
            record["tried"]["seconds"] = seconds
        print_json(record)
        return
    if tried:
        _tried(tried)
    output("", f"memory: {checked.memory.sentence or 'the limit of this machine is not known.'}")
    if tried and tried.time and seconds is not None:
        time = tried.time
        steps = int((HOUR - seconds) / time.step) + time.steps if seconds > HOUR else 0
        shorter = f" steps={steps} takes at most an hour." if steps > 0 else ""
        if seconds > HOUR:
            shorter += " A smaller max_tokens, prompts or eval.problems takes less time."
        if time.supervised:
            shorter += " Supervised steps may shorten the responses, and so the steps after them."
        output(
            f"time: about {duration(seconds)}: {duration(tried.load_s)} to load, "
            f"{time.parts()}.{shorter}"
        )
    elif tried:
        output("time: unknown, as no group of answers was completed in time.")
    if tried and tried.interrupted:
        output("", "interrupted: there is no verdict.")
        return
    output("", f"verdict: {checked.verdict}", *([f"next: {command}"] if command else []))


def _tried(tried: Tried) -> None:
    counts = tried.sampled
    kinds = (f"{counts[name]} {name}" for name in ("correct", "wrong", "unparsed", "timeout"))
    unended = f"; {counts['unended']} more were cut by the time limit" if counts["unended"] else ""
    output(
        "",
        f"answers: {tried.answers}: {', '.join(kinds)}; {counts['truncated']} cut at "
        f"max_tokens{unended}.",
    )
    groups = tried.groups
    level = f"{groups.all_right} are all correct, {groups.all_wrong} all wrong"
    others = f"; of the others {level}" if groups.with_signal < groups.total else ""
    output(
        "groups with unequal rewards, the only ones to learn from: "
        f"{groups.with_signal} of {groups.total}{others}."
    )
    for name, mean in tried.rewards.items():
        output(f"reward {name}: {'none given' if mean is None else f'{mean:.3g} on average'}.")
    for reason, number in tried.reasons.items():
        output(f"unparsed: {number} x {reason}.")
