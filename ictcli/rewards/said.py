"""Remove the parts of a response that do not count, for verifiers that look for a marked answer.

A marked answer is a box, or the text after `####`. The removed parts are hidden text, crossed-out
text, thinking, and each marked answer that the words around it deny or retract. The rules are in
tests/rewards/rules.md. The time is linear in the response's length."""

import re
from collections.abc import Iterable

from ictcli.rewards.answers import Span, hashes, outer_boxes
from ictcli.rewards.maths.numbers import plain

_THOUGHT = re.compile(
    r"(?i)<(/?)(?:think|thinking|thoughts?|reasoning|scratchpad|analysis)>|\[(/?)THINK\]"
)
_STRUCK = re.compile(r"(?<!~)~~(?=[^\s~])(?:(?!\n\n)[\s\S])*?~~")
_HIDDEN = (("<!--", "-->"), *((f"<{tag}>", f"</{tag}>") for tag in ("del", "s", "strike")))
_LAYOUT = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|emph)\s?\{|\\(?:[()\[\],;:! ]|q?quad(?![a-z])"
    r"|displaystyle)|[\s$*_`{}\"\u201c\u201d\u00a0]+"
)
_BEFORE, _AFTER, _MOST = 100, 20_000, 100
"""Number of characters read before and after a marked answer, and of marked answers checked."""


def _pattern(*parts: str) -> re.Pattern[str]:
    """Return a pattern that matches any of the parts, in which names of `_LISTS` are replaced."""
    text = "|".join(parts)
    for name, words in _LISTS.items():
        text = text.replace(name, f"(?:{words})")
    return re.compile(text)


_LISTS = {
    "FILLERS": (
        "(?:(?:ANSWER|been|be|being|equals?|to|the|an?|my|your|final|correct|right|ever|simply|just"
        "|would|possibly|as|much|many|actually|really|down|in|say|write|put|choose|pick|submit"
        "|state|report|return|enter|going|writing|saying|putting|true|that|it|this|of|exactly|even"
        "|here)[:,]? ){0,6}$"
    ),
    "FALSE": (
        r"(?:(?!not\b)\w+ ){0,2}(?:WRONG|an? (?:\w+ )?(?:mistake|error|trap|lie|joke)|joking"
        r"|kidding|off by|(?:ruled|crossed) out|too (?:small|large|big|high|low|few|many))\b"
        r"|(?:\w+ )?not (?:(?:\w+ )?(?:right|correct|true|possible|valid|so|it)"
        r"(?= ?[.!?,;:)]|$| because\b)|what\b|(?:\w+ ){0,3}answer\b(?! choices))"
    ),
    "ANSWER": "answer|result|value|number|solution|response|choice|conclusion|total|box|guess",
    "NOT": (
        r"(?<!than )(?<!whether or )not|never|nor|neither|hardly|no longer|cannot|nobody|no one"
        r"|anything but|(?:other|rather) than|instead of|unlike|different from|refuse to"
        r"|nicht|pas|não|no es|не"
    ),
    "SCALED": (
        "twice|thrice|half|double|triple|minus|negative|plus|differs? from|except|excluding"
        "|without|(?:square|cube|root|reciprocal|opposite|inverse) of"
        "|(?:more|less|greater|fewer|larger|smaller|higher|lower) than"
    ),
    "DROP": (
        "avoid|ignore|disregard|discard|reject|retract|refute|forget|scratch|delete|erase|strike"
        "|cross(?: out)?|rule out|exclude|eliminate|beware"
        "|(?:do not|never) (?:use|give|take|accept|trust|go with)"
    ),
    "WRONG": (
        "wrong|incorrect|false|mistaken|erroneous|untrue|invalid|inaccurate|rejected|nonsense"
        "|falsch|faux|incorrecto|неверно|错误?|不对"
    ),
    "NUMBER": r"-?\d[\d,]*(?:\.\d+)?(?! ?[\d/^%\\+*=-])",
    "IS": "is|was|were|are|would be|'s|seems|looks|am|'m",
}
_DENIED = _pattern(
    r"(?:^|\W)(?:NOT(?:,[^,.]{0,50},|[:,])?|SCALED) (?:\S+,? (?:or|nor) ){0,3}FILLERS",
    r"(?:^|[.!?;:,] ?|please |then |(?:we|i|you)(?:'d| would| should| must)? )DROP[:,]? FILLERS",
    r"(?:不|不是|并非|不等于|≠|(?<= )!=|\\neq?|\\not ?=) ?$",
    r"(?:^|[.!?;,(] ?)(?:WRONG|mistake|error|nope|deleted)\)?[:=-]* $",
    r"\bWRONG(?: \w+)? ANSWER(?: [\w']+){0,3}:? $",
    r"(?:\b(?:not|never|cannot|nobody|no one)(?: \w+){0,2} (?:think|believe|say|claim|agree|accept"
    r"|conclude|true|correct|right|sure|certain|case|mean)"
    r"|\b(?:doubt|deny|disagree|(?:WRONG|mistake|error) (?:to|that)))(?: [\w']+){1,8} $",
    r"\b(?:if|suppos\w+|assum\w+|imagine|pretend|unless|whether)"
    r"(?: (?:that|the|it|this|my|your|final|correct|right|only|ANSWER)){1,6}"
    r"(?:'s| is| was| were| be| equals| equaled)? $",
    r"\b(?:ANSWER|it) (?:were|had been) $|\b(?:suppose|imagine|pretend):? $",
    r"\bcontradiction\b[^.!?]{0,30} $",
    r"\b(?:following|below|next)\b[^.!?]{0,30}\b(?:WRONG|not)\b[^.!?]{0,20} $",
    r"(?:^|[.!?;,:] )(?:do not|never)(?: \w+){0,4}: $",
    r"\b(?:(?:student|friend|classmate)s? (?:wr[io]te|think|claim|believe)s?"
    r"|(?:someone|somebody|might|may|could"
    r"|(?:previously|earlier|initially|originally|at first|first),? (?:i|we))(?: be)?(?: \w+)?"
    r" (?:say|said|wr[io]te|think|thought|claim|guess|believe|assume|tempt)(?:s|d|ed)?)"
    r"(?: [\w']+){0,4} $",
)
"""Words that deny the marked answer after them."""
_BESIDE = re.compile(
    r"(?:(?:^|[\s(,$:&])-|=\s*-\s*|\S\s*[+/]\s*|\^\s*\{?\s*|\d(?:\s*\*\s*)?"
    r"|\\(?:cdot|times|pm|mp)\s*|(?:\\(?:[dt]?frac|sqrt)|\})\s*\{\s*)\Z"
)
"""Signs that change the value of the marked answer after them, as the minus of `-\\boxed{4}`."""
_FOLLOWS = re.compile(
    r"\.?\d"
    r"|\s*+(?:\$\s*+)?(?:hundred|thousand|million|billion|trillion|lakh|crore|dozen)\b"
    r"|\s*+(?:\$\s*+)?(?:[+/]\s*[\d\\(a-z$]|-\d|\^\s*\{?\s*[-\d]|\*\s*\d"
    r"|\\(?:cdot|times|div)\s*[\d\\(]|\\(?:pi|sqrt|[dt]?frac)(?![a-z]))"
    r"|[^.!?\n]{0,200}\?"
)
"""Signs and words that change the value of the marked answer before them, or make it a question."""
_TAKEN_BACK = _pattern(
    r"^[^\w?✗❌✘✕]*[✗❌✘✕]",
    r"^[^\w(]*[([]? ?(?:(?:which|that|this|it|answer),? ?){0,3}(?:IS FALSE|can ?not be)",
    r"^\W*[([,:;.!\u2013\u2014-] ?"
    r"(?:WRONG|no(?:pe)?|not(?! ?$)|deleted|discarded|retracted|crossed out|mistake)"
    r" ?(?:[\])?!.,;:]|$|not?\b|wait\b)",
    r"\b(?:that|this|it|i|(?:my|the|that|this) (?:\w+ ){0,2}(?:ANSWER|above|calculation))"
    r"(?: IS|'s|'m) FALSE",
    r"\b(?:scratch|forget|ignore|disregard|discard|strike|delete|retract|withdraw|undo) "
    r"(?:that|this|it|the above|the (?:last |boxed |previous )?(?:box|answer)|my)\b",
    r"\b(?:take|took) (?:that|this|it) back|\bnever ?mind|\bkidding\b|\boops\b|\bmy bad\b"
    r"|\bcorrection\b|\bon second thoughts?\b|\bi mean(?:t|:| \d)"
    r"|\bi (?:made|have made) an? (?:\w+ )?(?:mistake|error)",
    r"(?:^|[.!,;] )(?:hmm+,? |wait,? |oh,? )?no(?:pe)?[.!]",
)
_ANOTHER = (
    _pattern(
        r"(?:^|[.!?;:,] |\b(?:or|no|so|well|wait),? )(?:wait|no|nope|actually|really|rather|hold on"
        r"|hmm+|sorry|i now|recounting"
        r"|(?:but|however|instead|in fact|on reflection)[ ,]*(?:it|that|this|the|my))\b"
        r"(?:[ ,.:!-]*(?:no|wait|actually|it|that|this|the|my|correct|right|real|final|ANSWER|i"
        r"|get|got|think|say|gives|make|is|'s|was|be|should|must|would|=)\b){0,6}"
        r"[ ,.:!=]*(NUMBER)(?: \w+)?(?= ?[.!?,;:)]|$)"
    ),
    _pattern(
        r"\banswer(?: is| was|'s| should be| must be| =| equals|:){1,3}"
        r"(?: actually| really| in fact)? (NUMBER)(?! (?:percent|times|over|to)\b)"
    ),
)
"""Words after a marked answer that state another number as the answer."""
_LEADING = _pattern(r"\W*?(NUMBER)")


def said(response: str) -> str:
    """Return a response without hidden, crossed-out and thinking text and denied answers."""
    text = _spoken(_shown(response))
    if "box" not in text and "####" not in text:
        return text
    boxes = outer_boxes(text)
    kept = _upheld(text, reversed(boxes))
    return _upheld(kept, hashes(kept)) if len(kept) < len(text) or not boxes else kept


def _upheld(text: str, marks: Iterable[Span]) -> str:
    """Return a text without denied answers at its end; `marks`: all marked answers, last first."""
    end = len(text)
    for count, mark in enumerate(marks):
        if count == _MOST:
            return ""
        if not _denied(text, mark, end, count > 0):
            break
        text, end = text[: mark.start] + text[mark.end :], mark.start
    return text


def _denied(text: str, mark: Span, end: int, follows: bool) -> bool:
    """Return whether the words around a marked answer deny it, or retract it before offset `end`.
    `follows`: whether another marked answer stood at `end`."""
    before = text[max(0, mark.start - _BEFORE) : mark.start]
    if _DENIED.search(f"{_last_line(before)} ") or _BESIDE.search(before):
        return True
    after = text[mark.end : min(end, mark.end + _AFTER)]
    if _FOLLOWS.match(after):
        return True
    if follows:  # its last sentence is about the next answer
        after = after[: max(map(after.rfind, ".!?\n")) + 1] or after
    if not (after := _words(after)) or _TAKEN_BACK.search(after):
        return bool(after)
    answer = _LEADING.match(text[mark.content][:_BEFORE])
    others = [match[1] for pattern in _ANOTHER for match in pattern.finditer(after)]
    return bool(answer) and any(plain(number) != plain(answer[1]) for number in others)


def _last_line(text: str) -> str:
    """Return the words of a text's last line. If the text ends with a line break, return the words
    of the line before it, provided that a colon ends it or a displayed formula follows."""
    line = text.rstrip("\\[$ \t\n")
    between = text[len(line) :]
    goes_on = line.endswith(":") or "\\[" in between or "$$" in between
    return _words(line.rpartition("\n")[2]) if goes_on or "\n" not in between else ""


def _words(text: str) -> str:
    """Return a text in lower case, without layout, and with "n't" spelled out as "not"."""
    text = _LAYOUT.sub(" ", text.replace("\u2019", "'")).replace("  ", " ").strip().lower()
    return text.replace("can't", "cannot").replace("n't", " not") if "n't" in text else text


def _spoken(text: str) -> str:
    """Return a text without thinking, unless thinking comes last and ends with a marked answer."""
    spoken: list[str] = []
    thought, inside, start = "", False, 0
    for tag in _THOUGHT.finditer(text):
        part = text[start : tag.start()]
        start = tag.end()
        if "/" in tag[0] or inside:
            thought, inside = part, "/" not in tag[0]
        else:
            spoken.append(part)
            inside = True
    rest = text[start:]
    if inside:
        thought, rest = rest, ""
    if thought and not re.search(r"\w", rest) and _ends_marked(thought):
        rest = thought
    return "\n".join([*spoken, rest]) if start else text


def _ends_marked(thought: str) -> bool:
    boxes = outer_boxes(thought)
    last = thought.rstrip().rpartition("\n")[2]
    return last.startswith("####") or (
        bool(boxes) and not re.search(r"\w", thought[boxes[-1].end :])
    )


def _shown(text: str) -> str:
    """Return a text without what Markdown and HTML hide or cross out."""
    for opening, closing in _HIDDEN:
        if opening not in text:
            continue
        shown, place = list[str](), 0
        while (start := text.find(opening, place)) >= 0:
            if (end := text.find(closing, start)) < 0 and opening != "<!--":
                break
            shown.append(text[place:start])
            place = end + len(closing) if end >= 0 else len(text)
        text = " ".join([*shown, text[place:]])
    return _STRUCK.sub(" ", text) if "~~" in text else text
