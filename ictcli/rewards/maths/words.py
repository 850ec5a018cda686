"""Recognize and compare words in answers, and drop phrases that do not matter."""

import re

from ictcli.rewards.maths.latex import CLOSE, OPEN, flat, is_word
from ictcli.rewards.maths.nodes import Words
from ictcli.rewards.maths.units import changes_value
from ictcli.rewards.maths.vocabulary import HEDGES, LEADS, LINKS, NEGATIVES

_MARKED = re.compile(rf"{OPEN}([^{CLOSE}]*){CLOSE}")
_RUN = re.compile(r"[A-Za-z]+")
_HYPHEN = re.compile(r"([A-Za-z]*)\s*[-'](?=\s*([A-Za-z]*))")
_LEAD = re.compile(
    rf"(?i)^(?:{OPEN}([^{CLOSE}]*){CLOSE}"
    r"|([A-Z][A-Z ,]*?(?:\s+(?:is\s+equal\s+to|is|are|equals)\s|:)))\s*(?=\S)"
)
_VALUE_OF = re.compile(
    rf"^{OPEN}([^{CLOSE}]*){CLOSE}\s*[a-zA-Z]\s*{OPEN}([^{CLOSE}]*){CLOSE}(?=\s*\S)"
)
_NEGATIVE = re.compile(
    rf"(?i)^({OPEN})?\s*({'|'.join(NEGATIVES)})\s*(?(1){CLOSE}|\s)\s*(?=[\d.\\a-z])"
)
_ABOUT = re.compile(rf"(?i)^(?:{'|'.join(HEDGES)})\s+(?=[\d.\\$-])")


def simple(words: str) -> str:
    """Return words for comparison: single spaces, no punctuation, lower case except for symbols."""
    words = words.replace(OPEN, " ").replace(CLOSE, " ")
    words = re.sub(r"\bA(?= [a-z]{2})", "a", words)
    words = _RUN.sub(lambda run: run[0].lower() if _has_no_case(run[0]) else run[0], words)
    words = re.sub(r"[(){};?\"]+|[.,:](?!\d)|(?<=[a-z]{2})!", " ", words)
    words = re.sub(r"(?<=[A-Za-z])-(?=[a-z]{2})|(?<=[a-z]{2})-(?=[A-Za-z])", " ", words)
    return " ".join(words.split())


def _has_no_case(run: str) -> bool:
    if run[1:].islower() or run.isupper():
        return is_word(run) or run in ("PM", "AM") or (len(run) > 2 and not run.isupper())
    return False


def folded(text: str) -> str:
    """Return normalized LaTeX for comparison: words in lower case, no punctuation."""
    text = _MARKED.sub(lambda marked: f" {simple(marked[1])} ", text)
    text = re.sub(
        r"(?<![A-Za-z\\])[A-Za-z]{2,}(?![A-Za-z])",
        lambda run: run[0].lower() if is_word(run[0]) and _has_no_case(run[0]) else run[0],
        text,
    )
    return flat(text)


def worded(text: str) -> Words | None:
    """Return the content of `\\text{}`, or letters with at least one word, as Words; None for other
    texts, and if a hyphen stands between letters that are not words."""
    if OPEN in text:
        if not re.fullmatch(r"[\sA-Za-z.\-()']*", _MARKED.sub("", text)):
            return None
    elif not re.fullmatch(r"[A-Za-z]+(?:[ \-'.]+[A-Za-z]+)*[.']?", text.strip()):
        return None
    plain = re.sub(rf"(?<=\w)[{OPEN}{CLOSE}]*-[{OPEN}{CLOSE}]*(?=\w)", "-", text)
    plain = plain.replace(OPEN, " ").replace(CLOSE, " ")
    if not all(is_word(left) or is_word(right) for left, right in _HYPHEN.findall(plain)):
        return None
    if re.match(r"\s*-", plain) or re.search(r"-\s*$", plain):
        return None
    runs = _RUN.findall(text)
    if OPEN not in text and not any(
        is_word(run) or (len(run) > 2 and run.isupper()) for run in runs
    ):
        return None
    return Words(simple(plain))


def unmarked_letters(text: str) -> str:
    """Return `text` with `\\text{x}` as the symbol x, unless a number or bracket precedes it."""
    return re.sub(rf"(^|[-+*=(,<>{{|]\s*){OPEN}\s*([A-Za-z])\s*{CLOSE}", r"\1\2", text)


def is_name_phrase(words: str) -> bool:
    """Return whether words name a value without changing it, as in `the total area`."""
    runs = re.findall(r"[^\s,]+", words.replace(OPEN, " ").replace(CLOSE, " ").lower())
    return any(len(run) > 2 for run in runs) and all(
        re.fullmatch(r"[a-z'-]+", run) and not changes_value(run) for run in runs
    )


def without_lead(text: str) -> str:
    """Return `text` without words like `the answer is` or `about` before its value, and with
    `negative` as a minus sign."""
    text = _VALUE_OF.sub(rf"{OPEN}\1 \2{CLOSE}", text)
    if match := _LEAD.match(text):
        words = (match[1] or match[2] or "").strip().lower()
        for lead in LEADS:
            if words.startswith(lead):
                words = words[len(lead) :].strip(" ,")
        only_lead = not words and bool(match[1])
        name = words.removesuffix(":").rstrip()
        link = next((link for link in LINKS if f" {name}".endswith(f" {link}")), "")
        name = name.removesuffix(link).strip(" ,")
        if only_lead or (name != words and (not name or is_name_phrase(name))):
            text = text[match.end() :]
    text = _ABOUT.sub("", text)
    return _NEGATIVE.sub("-", text)
