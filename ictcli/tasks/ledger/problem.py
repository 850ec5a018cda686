"""Problems of the task `ledger`, their solutions and their fork tokens.

A prompt is a ledger: who works how many days on what. The question is how many days the sum is past
full weeks. A response counts the days along the week, from any day it likes, one entry a line:

    prompt    Nora mends nets for two days, sails for five days and boots for one day. How many
              days past full weeks is that?
    response  Say Nora begins on Tuesday.
              Then nets for two days, so it is Thursday.
              Next sails for five days, hence it is Tuesday.
              Later boots for one day, so it is Wednesday.
              From Tuesday to Wednesday is one day.
              #### 1

One word is one token. The only choice that matters is the day of an entry's line: a wrong one has
counted the day it starts from, too. So the forks are known exactly: see `forks`.

Source: ours.
"""

import random
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from ictcli.tasks.ledger.words import (
    DAYS,
    ECHOES,
    JOINTS,
    NAMES,
    NUMBERS,
    OPENERS,
    PHRASES,
    TRADES,
    Setting,
)
from ictcli.tasks.task import Decisions

HELDOUT_DIVISOR = 16
"""One prompt in this many is held out, by its checksum."""

_DAY = "|".join(DAYS)
_ENTRY = re.compile(rf"\b([a-z]+) for ({'|'.join(NUMBERS[1:])}) days?\b")
_LINE = re.compile(rf"{_ENTRY.pattern}[^\n]*?({_DAY})")
_OPENING = re.compile(rf"\nSay [A-Z][a-z]+ begins on ({_DAY})\.")
_CLOSING = re.compile(
    rf"\nFrom ({_DAY}) to ({_DAY}) is ({'|'.join(NUMBERS)}) days?\.\n#### ([0-6])"
)
_CLOSING_DAYS = re.compile(rf"\nFrom ({_DAY}) to ({_DAY})")
_CLOSING_NUMBER = re.compile(rf"\nFrom (?:{_DAY}) to (?:{_DAY}) is (\w+) day")
_ANSWER = re.compile(r"\n#### (\S+)")


@dataclass(frozen=True)
class Ledger:
    """A problem: `starts` are the days that a response may begin on."""

    name: str
    trade: str
    entries: tuple[tuple[str, int], ...]
    """(what, days) each; days from 1 to 6."""
    starts: tuple[str, ...] = DAYS

    @property
    def answer(self) -> int:
        """Days past full weeks, 0 to 6."""
        return sum(days for _, days in self.entries) % 7


def make_ledger(rng: random.Random, setting: Setting) -> Ledger:
    """Draw a problem: name, trade, number of entries and their days all uniform."""
    trade = rng.choice(list(TRADES))
    goods = rng.sample(TRADES[trade], rng.randint(*setting.entries))
    entries = tuple((good, rng.randint(1, 6)) for good in goods)
    starts = sorted(rng.sample(range(7), setting.starts))
    return Ledger(rng.choice(NAMES), trade, entries, tuple(DAYS[i] for i in starts))


def prompt_of(ledger: Ledger, setting: Setting) -> str:
    """The problem in words."""
    *most, last = (f"{good} for {_days(days)}" for good, days in ledger.entries)
    where = "" if len(ledger.starts) == 7 else f" Begin on {' or '.join(ledger.starts)}."
    return (
        f"{ledger.name} {ledger.trade} {', '.join(most)} and {last}. "
        f"How many days past full weeks is that?{where}{setting.ask}"
    )


def solution(ledger: Ledger, setting: Setting, rng: random.Random, right: float) -> str:
    """Write a response whose lines are right with probability `right` each; a wrong one counts the
    day it starts from, and so ends a day early."""

    def one_of(words: tuple[str, ...]) -> str:
        return rng.choice(words[: setting.synonyms])

    def phrase(number: int) -> str:
        parts = PHRASES[number % len(PHRASES)]
        return "".join(part if isinstance(part, str) else one_of(part) for part in parts)

    start = day = DAYS.index(rng.choice(ledger.starts))
    text = f"\nSay {ledger.name} begins on {DAYS[start]}."
    for good, days in ledger.entries:
        opener = one_of(OPENERS) + " also" * (rng.random() < setting.drift)
        filler = "".join(map(phrase, range(setting.phrases)))
        joint = one_of(JOINTS)
        day = (day + days - (rng.random() >= right)) % 7
        echoes = "".join(echo.format(day=DAYS[day]) for echo in ECHOES[: setting.echoes])
        text += f"\n{opener} {good} for {_days(days)}{filler}, {joint} it is {DAYS[day]}{echoes}."
    past = (day - start) % 7
    return f"{text}\nFrom {DAYS[start]} to {DAYS[day]} is {_days(past)}.\n#### {past}"


def _days(number: int) -> str:
    return f"{NUMBERS[number]} day{'s' * (number != 1)}"


def is_heldout(prompt: str) -> bool:
    """Whether a prompt is for evaluation only; by its text alone."""
    return zlib.crc32(prompt.encode()) % HELDOUT_DIVISOR == 0


def forks(prompt: str, response: str) -> list[int]:
    """Positions (0-based, in characters of the response) of the fork tokens, ascending.

    A line that names a number of days (`nets for two days`) is an entry, and its fork is the first
    day of the week after that: where the text first says what the count has come to. A line
    without both has no fork, so that a truncated one has one only if its day is there. The rule
    holds for any text, whatever the prompt.
    """
    return [match.start(3) for match in _LINE.finditer(response)]


def decisions(prompt: str, response: str) -> Decisions:
    """Which forks name the right day, counted from the one before as written, and where the answer
    is lost: at the first wrong day, number of days that is not the next entry's, closing line that
    comes early or names something else, or wrong answer."""
    numbers = [number for _, number in _ENTRY.findall(prompt.partition("?")[0])]
    opening = _OPENING.match(response)
    start = day = DAYS.index(opening[1]) if opening else None
    right: list[bool] = []
    slips: list[int] = []
    for place, line in enumerate(_LINE.finditer(response)):
        written = DAYS.index(line[3])
        right.append(day is not None and (day + NUMBERS.index(line[2])) % 7 == written)
        slips += [line.start(2)] * (numbers[place : place + 1] != [line[2]])
        slips += [line.start(3)] * (not right[-1])
        day = written
    if closing := _CLOSING_DAYS.search(response):
        slips += [closing.start()] * (len(right) < len(numbers))
        for group, expected in ((1, start), (2, day)):
            slips += [closing.start(group)] * (DAYS.index(closing[group]) != expected)
    past = sum(map(NUMBERS.index, numbers)) % 7
    for match, expected in (
        (_CLOSING_NUMBER.search(response), NUMBERS[past]),
        (_ANSWER.search(response), str(past)),
    ):
        slips += [match.start(1)] if match and match[1] != expected else []
    return Decisions(tuple(right), min(slips, default=None))


def is_sound(prompt: str, response: str) -> bool:
    """Whether a response takes every entry of the prompt in order, with a day that is right or one
    early, and closes with what it counted. One that is not sound has a slip of copying or counting,
    or no proper end."""
    opening, closing = _OPENING.match(response), _CLOSING.search(response)
    entries = _ENTRY.findall(prompt.partition("?")[0])
    if not opening or not closing or closing.end() != len(response):
        return False
    lines = _LINE.findall(response)
    if [line[:2] for line in lines] != entries:
        return False
    day = DAYS.index(opening[1])
    for _, number, written in lines:
        late = (day + NUMBERS.index(number) - DAYS.index(written)) % 7
        if late > 1:
            return False
        day = DAYS.index(written)
    past = (day - DAYS.index(opening[1])) % 7
    return closing.groups() == (opening[1], DAYS[day], NUMBERS[past], str(past))


def ledgers(rng: random.Random, setting: Setting, *, heldout: bool) -> Iterator[tuple[str, Ledger]]:
    """Endless different problems with their prompts, held out or not."""
    seen: set[str] = set()
    while True:
        ledger = make_ledger(rng, setting)
        prompt = prompt_of(ledger, setting)
        if is_heldout(prompt) == heldout and prompt not in seen:
            seen.add(prompt)
            yield prompt, ledger
