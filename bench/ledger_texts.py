"""What the base model of the task `ledger` is taught: solutions in four styles, and their
tokens."""

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ictcli.tasks.ledger.problem import (
    DAYS,
    NAMES,
    NUMBERS,
    SETTINGS,
    TRADES,
    Ledger,
    days_in_words,
)

DAY = "|".join(DAYS)
ENTRY = re.compile(rf"\b([a-z]+) for ({'|'.join(NUMBERS[1:])}) days?\b")
LINE = re.compile(rf"{ENTRY.pattern}[^\n]*?({DAY})")
OPENING = re.compile(rf"\nSay [A-Z][a-z]+ begins on ({DAY})\.")
CLOSING = re.compile(rf"\nFrom ({DAY}) to ({DAY}) is ({'|'.join(NUMBERS)}) days?\.\n#### ([0-6])")
OPENERS = ("Then", "Next", "Later", "Soon")
JOINTS = ("so", "thus", "hence", "now")
_GATES, _EVENINGS = ("old", "tall", "green", "stone"), ("quiet", "warm", "late", "soft")
_SUNS, _BEASTS = ("red", "pale", "low", "round"), ("dogs", "cats", "geese", "goats")
_ENDS, _DOES = ("comes", "falls", "ends", "sinks"), ("sing", "sleep", "play", "wait")
_VIEWS = ("hills", "woods", "roofs", "towers")
PHRASES = (
    (" by the ", _GATES, " gate"),
    (", until the ", _EVENINGS, " evening ", _ENDS),
    (", while the ", _BEASTS, " ", _DOES, " in the square"),
    (", the ", _SUNS, " sun goes down behind the ", _VIEWS),
)
"""Filler: texts, and slots of words that are equally good."""
ECHOES = (", {day} says the book", ", {day} say the bells", ", {day} sing the birds")


@dataclass(frozen=True)
class Style:
    """How a setting's solutions are told."""

    phrases: int = 0
    """Phrases of filler in an entry's line: the more, the rarer the days that matter."""
    echoes: int = 0
    """How often a line repeats its day: tokens without a choice that tell rollouts apart."""
    drift: float = 0.0
    """Chance that a line has a word more, behind which rollouts no longer stand side by side."""


STYLES = {
    "ledger": Style(),
    "ledger-easy": Style(phrases=3),
    "ledger-echo": Style(phrases=3, echoes=2),
    "ledger-drift": Style(phrases=3, drift=0.3),
}
"""By name of the task."""


LONG = 4
"""Days from which on an entry is one that the base model gets wrong more often than not."""


def solution(
    ledger: Ledger, style: Style, rng: random.Random, right: float, right_long: float
) -> str:
    """Write a response whose lines are right with probability `right` each, those of `LONG` or more
    days with `right_long`; a wrong one counts the day it starts from, and so ends a day early."""

    def phrase(number: int) -> str:
        parts = PHRASES[number % len(PHRASES)]
        return "".join(part if isinstance(part, str) else rng.choice(part) for part in parts)

    start = day = DAYS.index(ledger.start)
    text = f"\nSay {ledger.name} begins on {DAYS[start]}."
    for good, days in ledger.entries:
        opener = rng.choice(OPENERS) + " also" * (rng.random() < style.drift)
        filler = "".join(map(phrase, range(style.phrases)))
        joint = rng.choice(JOINTS)
        chance = right_long if days >= LONG else right
        day = (day + days - (rng.random() >= chance)) % 7
        echoes = "".join(echo.format(day=DAYS[day]) for echo in ECHOES[: style.echoes])
        said = f"{opener} {good} for {days_in_words(days)}{filler}, {joint} it is {DAYS[day]}"
        text += f"\n{said}{echoes}."
    past = (day - start) % 7
    return f"{text}\nFrom {DAYS[start]} to {DAYS[day]} is {days_in_words(past)}.\n#### {past}"


def is_sound(prompt: str, response: str) -> bool:
    """Return whether a response begins on the prompt's day, takes every entry of the prompt in
    order, with a day that is right or one early, and closes with what it counted. One that is not
    sound has a slip of copying or counting, or no proper end."""
    opening, closing = OPENING.match(response), CLOSING.search(response)
    entries, _, question = prompt.partition("?")
    if not opening or not closing or closing.end() != len(response):
        return False
    if f" Begin on {opening[1]}." not in question:
        return False
    lines = LINE.findall(response)
    if [line[:2] for line in lines] != ENTRY.findall(entries):
        return False
    day = DAYS.index(opening[1])
    for _, number, written in lines:
        late = (day + NUMBERS.index(number) - DAYS.index(written)) % 7
        if late > 1:
            return False
        day = DAYS.index(written)
    past = (day - DAYS.index(opening[1])) % 7
    return closing.groups() == (opening[1], DAYS[day], NUMBERS[past], str(past))


PIECE = re.compile(r" ?[A-Za-z]+| ?\d|#+|\n|.")
"""A word with the space before it, a digit, a line's end or a sign: what one token holds."""
_FRAME = (
    "\nSay begins on. for day days also, it is and How many past full weeks is that? Begin on or "
    "\nFrom to\n#### 0 1 2 3 4 5 6"
)


def _vocabulary() -> Iterator[str]:
    yield from ("<pad>", "<unk>", "<end>")
    texts = [*NAMES, *(f" {name}" for name in NAMES), *OPENERS, _FRAME]
    texts += [f" {word}" for word in (*DAYS, *NUMBERS, *JOINTS, *TRADES)]
    texts += [f" {good}" for goods in TRADES.values() for good in goods]
    for part in (part for phrase in PHRASES for part in phrase):
        texts += [part] if isinstance(part, str) else [f" {word}" for word in part]
    texts += [echo.format(day=DAYS[0]) for echo in ECHOES]
    texts += [setting.ask for setting in SETTINGS.values()]
    for text in texts:
        yield from PIECE.findall(text)


VOCABULARY = tuple(piece for piece in dict.fromkeys(_vocabulary()) if piece != " ")
"""Every token, in the order of its id."""

PAD_ID, END_ID = VOCABULARY.index("<pad>"), VOCABULARY.index("<end>")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word and sign: a word has the space before it, so that texts are tokens joined.
    Any other word is `<unk>`. `<end>` ends a response and is no part of its text."""
    tokenizer = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE.pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
