"""The letter that a response decides on in words.

A response is read sentence by sentence. A sentence decides only if it is read from end to end: a
clause of one letter and words of one list; before it openers, or a reason and its joint; behind it
the text of the choice, a reason, or a refusal of others. After a decision every sentence must be
silent. What is not read decides nothing. docs/verifier.md has the rules in words.
"""

import re
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from ictcli.rewards.wording import LAYOUT, LISTS, PATTERNS

LONGEST = 20_000
"""Characters at the end of a response in which a decision in words may stand."""
MARK = "█"
"""Stands before a letter that was in a box. If there is one, no other letter decides."""

Naming = Callable[[str, bool], str]
"""The letters of the choices that are a text or begin with it; or, if true, that stand in it."""

_LONGEST_SENTENCE = 1_000
_MOST_JOINTS = 9
_LAYOUT = [(re.compile(pattern), text) for pattern, text in LAYOUT]
_OPTION = re.compile("[A-J]")


class Sentence(NamedTuple):
    """A sentence of a response."""

    text: str
    heads: bool
    """It begins a line."""
    listed: bool
    """Its line is one of a list of choices."""


class Decision(NamedTuple):
    """What a sentence decides on."""

    letter: str
    turn: bool
    """It takes back what was decided before it, as in "no, ..." or "the final answer"."""
    bare: bool
    """The letter stands at the start of a line, without words."""


def decided(text: str, naming: Naming | None = None) -> str:
    """The letters that a text decides on in words: empty if none, several if it names several.
    `naming` finds the choices in a text; None if they are unknown."""
    letters, turned, before = "", False, ""
    earlier: dict[str, bool] = {}
    marked = MARK in text
    for sentence in _sentences(plain(text[-LONGEST:]), naming):
        decision = None
        if marked == (MARK in sentence.text) and not _begins("fiction", before):
            decision = _marked(sentence, naming) if marked else _read(sentence, naming)
        if decision:
            if turned or decision.turn:
                earlier.clear()
            others = [one for one, bare in earlier.items() if decision.bare or not bare]
            letters = "".join(dict.fromkeys([*others, decision.letter]))
            earlier[decision.letter], turned = decision.bare, False
        else:
            turned |= _begins("turned", sentence.text)
            if letters and not _silent(sentence.text, letters, naming):
                letters = ""
        before = sentence.text
    return letters


def said(text: str, naming: Naming | None = None) -> str:
    """The letters of a text that holds an answer and nothing else: empty if there is none, several
    if it names several."""
    text, *_ = _opened(_normal(plain(text)))
    letters = "".join(dict.fromkeys(_OPTION.findall(text)))
    return _said(text, naming, alone=True) or (letters if len(letters) > 1 else "")


def plain(text: str) -> str:
    """A text without emphasis and styles, nor what Markdown hides, strikes out or quotes."""
    for pattern, replacement in _LAYOUT:
        text = pattern.sub(replacement, text)
    return text.strip()


def _normal(text: str) -> str:
    """A plain text in small letters except where a capital can be that of an option."""

    def small(word: re.Match[str]) -> str:
        option = not word["kind"] and word["word"] in "ABCDEFGHIJ"
        if not option or _rule("no option").match(text, word.end()):
            return word[0].lower()
        is_word = word["word"] in "AI" and _rule("article").match(text, word.end())
        return word[0].lower() if is_word else word[0]

    return _rule("capitals").sub(small, text)


def _sentences(text: str, naming: Naming | None) -> Iterator[Sentence]:
    """The sentences of a plain text. A line that begins with a letter is one if it is read so."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    heads = [
        ord(head[2]) if (head := _rule("head of a line").search(line)) else 0 for line in lines
    ]
    for line, above, head, below in zip(lines, [0, *heads], heads, [*heads[1:], 0], strict=False):
        listed = head > 0 and (above == head - 1 or below == head + 1)
        whole = Sentence(_normal(line), True, listed)
        if head and (listed or _refused(whole.text, "") or _read(whole, naming)):
            yield whole
            continue
        start = 0
        for stop in [*_rule("stop").finditer(line), None]:
            if piece := line[start : stop.start() if stop else None].strip():
                yield Sentence(_normal(piece), start == 0, listed)
            start = stop.end() if stop else start


@cache
def _rule(name: str) -> re.Pattern[str]:
    """A pattern or a list of `wording` as a regular expression."""

    def expanded(name: str) -> str:
        if name in LISTS:
            words = "|".join(LISTS[name]).replace("_", " ").replace("*", "[a-z]*")
            return f"(?<![a-z])({words})(?![a-z])"
        return re.sub(r"(?<!P)<([a-z ]+)>", lambda one: f"({expanded(one[1])})", PATTERNS[name])

    return re.compile(expanded(name), re.S)


def _begins(rule: str, text: str) -> bool:
    return bool(_rule(rule).match(text))


def _has(text: str, *rules: str) -> bool:
    return any(_rule(rule).search(text) for rule in rules)


def _marked(sentence: Sentence, naming: Naming | None) -> Decision | None:
    """What a sentence with a box decides on: its letter, if the words before it suppose nothing,
    those of its own clause deny nothing, and what stands behind may do so."""
    before, letter, tail = re.split(f"{MARK}([A-J])", sentence.text, maxsplit=1)
    if _has(before, "supposed") or _has(_rule("clauses").split(before)[-1], "denied"):
        return None
    verdict = _rule("verdict").match(tail := f" {tail.strip()}")
    if not _ends(letter, tail[verdict.end() if verdict else 0 :], naming, marked=True):
        return None
    return Decision(letter, _opened(before)[2], bare=False)


def _read(sentence: Sentence, naming: Naming | None) -> Decision | None:
    """What a sentence decides on."""
    too_long = len(sentence.text) > _LONGEST_SENTENCE
    if sentence.listed or too_long or not _OPTION.search(sentence.text):
        return None
    text, opened, turn = _opened(sentence.text)
    turn |= _has(text, "final")
    if letter := _said(text, naming, alone=opened or sentence.heads):
        return Decision(letter, turn, bare=not opened and not _said(text, naming, alone=False))
    joints = [*_rule("leading joint" if _begins("leading", text) else "joint").finditer(text)]
    for joint in reversed(joints[-_MOST_JOINTS:]):
        before, (rest, opened, turns) = text[: joint.start()], _opened(text[joint.end() :])
        denied = (
            before if joint["subject"] else before.partition(",")[0] if joint[0] == ", " else ""
        )
        if (
            _has(before, "supposed")
            or _has(denied, "doubtful")
            or (joint["subject"] and _has(denied, "no"))
        ):
            continue
        if letter := _said(rest, naming, alone=opened or bool(joint["so"] or joint["bracket"])):
            others = set(_OPTION.findall(before)) - {letter}
            if others and joint["so"] and _has(before, "approval") and not _refused(before, letter):
                return None
            return Decision(letter, turn or turns, bare=False)
    return None


def _opened(text: str) -> tuple[str, bool, bool]:
    """A text without its openers; whether a letter alone may follow them; and whether they take
    back what was decided."""
    opened = turn = False
    while opener := _rule("opener").match(text):
        turn |= bool(opener["turn"])
        opened |= bool(opener["so"] or (opener["turn"] and re.search("[,.:]|rather", opener[0])))
        text = text[opener.end() :]
    return text, opened, turn


def _said(text: str, naming: Naming | None, *, alone: bool) -> str:
    """The letter that a clause says is the answer, if the clause and what may stand behind it are
    all of the text. `alone`: a letter without words will do."""
    clause = _rule("clause").match(text)
    if not clause or _has(words := _rule("called").sub("", clause["head"]), "astray"):
        return ""
    letter, tail = _OPTION.findall(clause["letter"])[0], text[clause.end() :]
    marked = clause["letter"][-1] in ')]}"'
    inserted = _rule("inserted").match(tail)
    if inserted and not _fits(letter, inserted["text"], naming, marked=marked):
        inserted = None
    for verdict in (_rule("verdict").match(tail), inserted, None):
        more, rest = (verdict["verdict"], tail[verdict.end() :]) if verdict else ("", tail)
        decides = (alone and words == more == "") or _has(words, "deciding", "this is")
        if not (decides or _has(more, "deciding")):
            continue
        if _ends(letter, rest, naming, marked=marked, right=bool(more)):
            return letter
    return ""


def _ends(
    letter: str, tail: str, naming: Naming | None, *, marked: bool, right: bool = False
) -> bool:
    """Whether a text may stand behind a decision. `marked`: the letter is in brackets; `right`: it
    is said to be right, and its text stood before."""
    if re.fullmatch(r'(?!.*\.\.)[] .!:;,)}"]*', tail):
        return True
    if not right and _fits(letter, tail, naming, marked=marked):
        return True
    for cut in islice(_rule("cut").finditer(tail), _MOST_JOINTS):
        text, rest = tail[: cut.start()], tail[cut.end() :]
        if text.strip(" )") and not _fits(letter, text, naming, marked=marked):
            continue
        reason = _rule("reason").match(rest)
        if reason and reason["which"]:
            others = naming(rest, True) if naming else ""
            if _has(rest, "no") or others not in ("", letter):
                continue
        if reason or (right and ":" in cut[0]):
            given = rest[reason.end() if reason else 0 :]
            named = set(_OPTION.findall(given)) - {letter}
            if not _has(given, "doubtful") and (not named or _refused(given, letter)):
                return True
        others = _rule("not others").fullmatch(rest)
        if _refused(rest, letter) or (others and letter not in others[0]):
            return True
    return False


def _fits(letter: str, text: str, naming: Naming | None, *, marked: bool) -> bool:
    """Whether a text behind a letter can be that of its choice."""
    mark = re.match(r"[.,:;)\]]* ?(?:- |\()?(?:(?:i\.e\.|that is|namely),? )?", text)
    assert mark is not None
    text = text[mark.end() :].strip(' "').rstrip(' .,:;!)]"-')
    if naming is not None:
        if named := naming(text, False):
            return named == letter
        if named := naming(text, True):
            return named == letter and not _has(text, "no", "doubtful", "supposed")
    if re.fullmatch("(?:none|all|both|neither) of (?:the above|these|them)", text):
        return True
    if not (marked or mark[0].strip()) or (mark[0].startswith(".") and text[:1].isalpha()):
        return False
    if naming is not None and not re.search(r"\d", text):
        return False
    return bool(text) and not _has(text, "no", "doubtful", "supposed", "approval", "more")


def _refused(text: str, letter: str) -> bool:
    """Whether a text says that other options are wrong: one negation, and no approval."""
    if len(text) > _LONGEST_SENTENCE or not (refused := _rule("refused").fullmatch(text)):
        return False
    for joint in (", (?:and|while|whereas) ", ", ", " (?:and|while|whereas) "):
        parts = re.split(joint + r"(?=(?:option |choice )?[(\[]?[A-J]\b)", text)
        if len(parts) > 1 and all(part and _refused(part, letter) for part in parts):
            return True
    rest = _rule("not right").sub("not", refused["rest"])
    named = set(_OPTION.findall(text[: refused.start("rest")]))
    if letter in named or not (letter or named) or set(_OPTION.findall(rest)) - {letter}:
        return False
    claim = _rule("claims").split(rest)[0] or rest
    negations = {negation[0] for negation in _rule("no").finditer(claim)}
    if refused["none"]:
        return not negations
    if _OPTION.search(claim) or _has(rest, "approval"):
        return False
    return len(negations) == 1 and negations != {"no"}


def _silent(text: str, letters: str, naming: Naming | None) -> bool:
    """Whether a sentence after a decision takes nothing of it back and adds nothing to it."""
    heading, colon, rest = text.partition(": ")
    if colon and _rule("closing").fullmatch(heading):
        return _silent(rest, letters, naming)
    short = len(text.split()) < 3 and not re.search(r"\d|:$", text)
    text = text.strip(' .!:"()-')
    if not text or _rule("closing").fullmatch(text.rstrip(" ?")) or _refused(text, letters):
        return True
    named, negated = set(_OPTION.findall(text)), _has(text, "no")
    if short or "?" in text or _has(text, "doubtful") or _begins("starts", text):
        return False
    if named - set(letters) or (named and negated):
        return False
    explains = None
    if pointing := _rule("pointing").match(text):
        explains = _rule("explains").match(text, pointing.end())
        if not explains or (negated and " not" not in explains[0]) or _has(text, "limits"):
            return False
    if _has(text, "about") and not (explains and explains["same"]):
        return naming is not None and naming(text.rpartition(" is ")[2], False) == letters
    return naming is None or naming(text, False) in ("", letters)
