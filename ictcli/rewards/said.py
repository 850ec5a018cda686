"""What a response says, for every verifier that looks for a marked answer in it.

Left out are what is hidden, crossed out or only thought, and each box and `####` that the words
around it deny or take back. docs/verifier.md has the rules in words. The time is linear in the
response.
"""

import re
from collections.abc import Iterable

from ictcli.rewards.answers import Span, hashes, outer_boxes
from ictcli.rewards.maths.numbers import plain

_THOUGHTS = "think|thinking|thoughts?|reasoning|scratchpad|analysis"
_THOUGHT = re.compile(rf"(?i)<(/?)(?:{_THOUGHTS})>|\[(/?)THINK\]")
_COMMENT = re.compile(r"(?m)^[ \t]*+(?:%|\[//\]: #)[^\n]*")
_BESIDE = re.compile(
    r"(?:(?:^|[\s(,$:&])-|=\s*-\s*|\S\s*[+/]\s*|\^\s*\{?\s*|\d(?:\s*\*\s*)?"
    r"|\\(?:cdot|times|pm|mp)\s*|(?:\\(?:[dt]?frac|sqrt)|\})\s*\{\s*)\Z"
)
_AFTER_IT = re.compile(
    r"\d|\s*+(?:\$\s*+)?(?:[+/]\s*[\d\\(a-z$]|-\d|\^\s*\{?\s*[-\d]|\*\s*\d"
    r"|\\(?:cdot|times|div)\s*[\d\\(]|\\(?:pi|sqrt|[dt]?frac)(?![a-z]))"
)
"""What stands beside a box and makes its value another."""
_HIDING = re.compile(
    r"(?i)<!--|~~(?=\S)|\\iffalse(?![a-z])|\\begin\{comment\}|<(?:del|s|strike)>"
    r"|<[a-z]+ [^<>]{0,200}(?:hidden|display: ?none)[^<>]{0,100}>"
    r"|\\(?:[hv]?phantom|[bx]?cancel|sout|st|xout)\s*+\{"
)
_SIGNS = (
    "<",
    "~~",
    "\\iffalse",
    "\\begin{comment}",
    "phantom",
    "cancel",
    "\\sout",
    "\\st",
    "\\xout",
)
_BRACE = re.compile(r"\\[\s\S]|[{}]")
_LAYOUT = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|emph)\s?\{|\\(?:[()\[\],;:! ]|q?quad(?![a-z])"
    r"|displaystyle)|[\s$*_`{}\"“”\u00a0]+"
)
_BEFORE, _AFTER = 100, 20_000
"""Characters that are read before and after a box."""
_MOST = 100
"""Boxes that are looked at, from the last on."""

_WRONG = (
    "wrong|incorrect|false|mistaken|erroneous|untrue|invalid|inaccurate|rejected"
    "|nonsense|falsch|faux|incorrecto|неверно|错误?|不对"
)
_NOT = (
    r"(?<!than )(?<!whether or )not|never|nor|neither|hardly|no longer|cannot|\w+n't|nicht|pas|não|no es|не"
    "|anything but|(?:other|rather) than|instead of|unlike|different from|ne|neq"
)
_SCALED = (
    r"twice|thrice|half|double|triple|minus|negative|plus|differs? from"
    r"|except|excluding|without"
    r"|(?:more|less|greater|fewer|larger|smaller|higher|lower) than"
)
_ANSWER = "answer|result|value|number|solution|response|choice|conclusion|total|box|guess"
_FILLER = (
    f"(?:{_ANSWER}|be|been|being|equals?|equal|to|the|an?|my|your|final|correct|right|ever|simply"
    "|just|actually|really|as|down|in|say|write|put|choose|pick|submit"
    "|answer|state|report|return|enter|true|that|it|this|of|exactly|even|here)"
)
_DROP = (
    "avoid|ignore|disregard|discard|reject|retract|refute|forget|scratch|delete|erase|strike"
    "|cross(?: out)?|rule out|exclude|eliminate|beware"
    "|(?:do not|don't|never) (?:use|give|take|accept|trust|go with)"
)
_DENIED = re.compile(
    rf"(?:^|[^\w'])(?:{_NOT}|{_SCALED}|no ?(?:one|body)(?: \w+)?|(?:refuse|fail|decline)s? to)"
    rf"(?:,[^,.]{{0,50}},|[:,])? (?:\S+,? (?:or|nor) ){{0,3}}(?:{_FILLER}[:,]? ){{0,6}}$"
    rf"|(?:^|[.!?;:,] ?|please |then )(?:{_DROP})[:,]? (?:{_FILLER}[:,]? ){{0,6}}$"
    rf"|(?:不|不是|并非|不等于|≠|(?<= )!=|\\neq?|\\not ?=) ?$"
    rf"|(?:^|[.!?;,(] ?)(?:{_WRONG}|mistake|error|nope|deleted|discarded)\)?[:=-]* $"
    rf"|\b(?:{_WRONG})(?: \w+)? (?:{_ANSWER})(?: [\w']+){{0,3}}:? $"
    r"|\b(?:not|never|cannot|\w+n't|nobody|no one)(?: \w+){0,2} "
    r"(?:think|believe|say|said|claim|agree|accept|conclude|true|correct|right|sure|certain|case|mean)"
    r"(?: [\w']+){1,8} $"
    rf"|\b(?:doubt|deny|disagree|(?:{_WRONG}|mistake|error) (?:to|that))(?: [\w']+){{1,8}} $"
    r"|\b(?:if|suppose|supposing|assume|assuming|imagine|pretend|unless|whether)"
    rf"(?: (?:that|the|it|this|my|your|final|correct|right|only|{_ANSWER}))+"
    r"(?:'s| is| was| were| be| equals| equaled)? $"
    r"|\b(?:suppose|imagine|pretend):? $|\bcontradiction\b[^.!?]{0,30} $"
    rf"|\b(?:following|below|next)\b[^.!?]{{0,30}}\b(?:{_WRONG}|not)\b[^.!?]{{0,20}} $"
    r"|(?:^|[.!?;,:] )(?:do not|don't|never)(?: \w+){0,4}: $"
    r"|\b(?:(?:student|friend|classmate)s? (?:wr[io]tes?|thinks?|claims?|believes?)|(?:someone|somebody"
    r"|(?:previously|earlier|initially|originally|at first|first),? (?:i|we)|might|may|could)(?: be)?"
    r"(?: \w+)? (?:sa(?:y|ys|id)|wr[io]tes?|th(?:inks?|ought)|claim(?:s|ed)?|guess(?:ed)?|believed?"
    r"|assumed?|tempted))(?: [\w']+){0,4} $"
)
_IS = r"(?:is|was|were|are|would be|'s|seems|looks)"
_FALSE = (
    rf"(?:(?:(?!not\b)\w+ )?(?:{_WRONG}|a mistake|an error|ruled out|crossed out|off by"
    r"|too (?:small|large|big|high|low|few|many))\b"
    r"|not (?:(?:\w+ )?(?:right|correct|true|possible|valid|so|it)(?= ?[.!?,;:)]|$| because\b)"
    r"|(?:\w+ ){0,3}answer\b(?! choices)))"
)
_REFUSED = re.compile(
    r"[^\w?([✗❌✘✕]*+(?:[?✗❌✘✕]|[([]? ?(?:which|that|this|it|answer|,)*,? ?"
    rf"(?:{_IS}(?: (?!not\b)\w+)? {_FALSE}|(?:is|was|ca|could|must|should)n't\b|can ?not be))"
    r"|\W*[([,:;.!\u2013\u2014-] ?"
    rf"(?:{_WRONG}|nope|no|not(?! ?$)|deleted|discarded|retracted|crossed out|mistake)"
    r" ?(?:[\])?!.,;:]|$|not?\b|wait\b)"
)
_TAKEN_BACK = re.compile(
    rf"\b(?:that|this|it|i|(?:my|the) (?:\w+ ){{0,2}}(?:{_ANSWER}|above|calculation))"
    rf"(?: {_IS}|'s|'m| am)(?: (?!not\b)\w+)? {_FALSE}"
    rf"|\b(?:that|this|it|answer|box) (?:isn't|wasn't|ain't|cannot be|can't be)"
    rf" (?:\w+ ){{0,2}}(?:right|correct|true|it|possible|{_ANSWER})\b"
    r"|\b(?:scratch|forget|ignore|disregard|discard|strike|delete|retract|withdraw|undo) "
    r"(?:that|this|it|the above|the (?:last |boxed |previous )?(?:box|answer)|my)\b"
    r"|\b(?:take|took) (?:that|this|it) back|\bnever ?mind|\bkidding\b"
    r"|\bi(?:'m| am| was) (?:joking|wrong|mistaken)"
    r"|\bi (?:made|have made) (?:a|an) (?:\w+ )?(?:mistake|error)"
    r"|\boops\b|\bmy bad\b|\bcorrection\b|\bon second thoughts?\b|\bi mean(?:t|:| \d)"
)
_NUMBER = r"-?\d[\d,]*(?:\.\d+)?"
_TURN = re.compile(
    r"(?:^|[.!?;:,] |\b(?:or|no|so|well|wait),? )(?:wait|no|nope|actually|rather|hold on|hmm+|sorry"
    r"|recounting|i now|(?:but|however|instead|in fact|on reflection)[ ,]*(?:it|that|this|the|my))\b"
    r"(?:[ ,.:!-]*(?:no|wait|actually|it|that|this|the|my|correct|right|real|final|answer|result|value"
    r"|i|get|got|think|say|gives|make|is|'s|was|be|should|must|would|=)\b){0,6}"
    rf"[ ,.:!=]*({_NUMBER})(?! ?[\d/^%\\+*=-])(?: \w+)?(?= ?[.!?,;:)]|$)"
)
_RESTATED = re.compile(
    r"\banswer(?: is| was|'s| should be| must be| =| equals|:){1,3}(?: actually| really| in fact)? "
    rf"({_NUMBER})(?! ?[\d/^%\\+*=-]| (?:percent|times|over|to)\b)"
)
_LEADING = re.compile(rf"\W*?({_NUMBER})(?![\d/^\\])")


def said(response: str) -> str:
    """A response without what it does not say."""
    text = _spoken(_shown(response))
    if "box" not in text and "####" not in text:
        return text
    boxes = outer_boxes(text)
    kept = _upheld(text, reversed(boxes))
    return _upheld(kept, hashes(kept)) if len(kept) < len(text) or not boxes else kept


def _upheld(text: str, marks: Iterable[Span]) -> str:
    """A text without its last marked answers, given from the last on, as far as they are denied."""
    end = len(text)
    for count, mark in enumerate(marks):
        if count == _MOST:
            return ""
        if not _denied(text, mark, end, count > 0):
            break
        text, end = text[: mark.start] + text[mark.end :], mark.start
    return text


def _denied(text: str, mark: Span, end: int, follows: bool) -> bool:
    """Whether the words around a marked answer deny it, or take it back before `end`, where
    another one stood if one `follows`."""
    before = text[max(0, mark.start - _BEFORE) : mark.start]
    if _DENIED.search(f"{_last_line(before)} ") or _BESIDE.search(before):
        return True
    if _AFTER_IT.match(text, mark.end):
        return True
    after = text[mark.end : min(end, mark.end + _AFTER)]
    if follows:  # what begins there is said of the next one
        after = after[: max(map(after.rfind, ".!?\n")) + 1] or after
    if not (after := _words(after)):
        return False
    if _REFUSED.match(after) or _TAKEN_BACK.search(after):
        return True
    answer = _LEADING.match(text[mark.content][:_BEFORE])
    others = [match[1] for pattern in (_TURN, _RESTATED) for match in pattern.finditer(after)]
    return bool(answer) and any(plain(each) != plain(answer[1]) for each in others)


def _last_line(text: str) -> str:
    """The words of the line that a text ends with; of the one above a formula on its own line, or
    after a colon."""
    line = text.rstrip("\\[$ \t\n")
    between = text[len(line) :]
    goes_on = line.endswith(":") or "\\[" in between or "$$" in between
    return _words(line.rpartition("\n")[2]) if goes_on or "\n" not in between else ""


def _words(text: str) -> str:
    """A text in small letters, without layout."""
    return _LAYOUT.sub(" ", text.replace("\u2019", "'")).replace("  ", " ").strip().lower()


def _spoken(text: str) -> str:
    """A text without its thinking, unless that is the end of it and ends with a marked answer."""
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
    """A text without comments, and without what Markdown, HTML and LaTeX hide or cross out."""
    if "%" in text or "[//]" in text:
        text = _COMMENT.sub("", text)
    if not any(sign in text for sign in _SIGNS):
        return text
    shown: list[str] = []
    unclosed: set[str] = set()
    start = place = 0
    while opening := _HIDING.search(text, place):
        kind, place = opening[0].lower(), opening.end()
        kind = "{" if kind[-1] == "{" else kind
        end = -1 if kind in unclosed else _closed(text, kind, place)
        if end < 0:
            unclosed.add(kind)
        elif kind != "~~" or text.find("\n\n", place, end) < 0:
            shown.append(text[start : opening.start()])
            start = place = end
    return " ".join([*shown, text[start:]])


def _closed(text: str, kind: str, place: int) -> int:
    """Where the hidden text that begins at a place ends; -1 where it is not closed."""
    if kind == "{":
        depth = 1
        for brace in _BRACE.finditer(text, place):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if not depth:
                return brace.end()
        return -1
    closing = {"<!--": "-->", "~~": "~~", "\\iffalse": "\\fi"}.get(
        kind, kind.replace("<", "</").replace("begin", "end")
    )
    if " " in kind:  # a tag with attributes
        closing = f"</{kind[1:].partition(' ')[0]}>"
    end = text.find(closing, place)
    if kind == "<!--" and end < 0:
        return len(text)
    return end + len(closing) if end >= 0 else -1
