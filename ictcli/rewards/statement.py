"""Find the letter that a response states as its answer, in linear time. The last letter counts,
unless the text asks, supposes, denies or retracts it. The rules are in tests/rewards/rules.md."""

import re
from collections.abc import Callable

_NOUN = r"(?:answer|ans\.?|option|choice|letter|statement|response|selection|alternative|solution)"
_MORE = r"(?:the|my|our|number|given by|therefore|then|clearly|indeed|certainly|definitely|simply)"
_GOOD = (
    r"(?:correct|right|best|better|only|closest|remaining|final|proper|chosen|selected|most \w+)"
)
_IS = r"(?:'s|,? (?:then, )?(?:is|(?:must|should|would|will|has to|can only) be))"
_GAP = r"(?:(?!(?-i:\b[A-J]\b))[^.?!:;=\n]){0,60}?"
_SO = r"(?:so|thus|hence|therefore|ergo|actually|rather|no|=>|[→∴]|\\therefore)"
_OPEN = (
    rf"(?:^|[.!?;,\n] ?| (?:so|and|but|yet) )(?:(?:{_SO}|then|that|and|now|finally|overall|here|yes"
    r"|clearly|obviously|okay|wait|in \w+\b(?: \w+\b)?|step \d+|correction|update|conclusion"
    r"|(?:we|i)(?: can)? (?:conclude|see|find|know|think|believe|say)|i(?:'m| am) (?:\w+ )?(?:sure"
    r"|certain|confident)|(?:this|it|which) (?:means|implies|shows|follows|tells us|is clear))"
    r"[,:]? ?){0,6}"
)
_letter = r"[(\[]?(?P<{}>(?-i:[A-J]))(?![\w'^&~\\\[-]| ?[=+*/<>]|[.:(]\w{})".format
_END = r"| (?!because|since|for|due|given|with|and the|not|but)[a-z]"
_ENDS = (
    rf"(?: {_NOUN}| one| that fits| best| this| all| here){{0,2}}(?=\W*$|[.,;:!)\n]| because| since"
    r"| as| due| given| (?:of|among) (?:all|the|these|them)| (?:to|for) (?:the|this))"
)
_SAID = re.compile(
    rf"(?i)(?:{_OPEN}(?:(?:{_MORE} )?(?:{_GOOD} ){{0,4}}{_NOUN}\b(?:{_GAP}{_IS}|{_IS}? ?[:=]| -)"
    rf"|{_SO}|only|(?:it|this|that|which){_IS}|(?:i|we)(?:'d| would| will)? (?:choose|pick|select"
    r"|have|get|say|think|answer|conclude)|(?:result|verdict|conclusion):)|\b(?:leav(?:es|ing)|gives"
    r"|points to|mak(?:es|ing)|match(?:es|ing)|(?:go|going|left|us|agrees) with|correspond(?:s|ing)"
    rf" (?:to|with)))[,:]? ?(?:(?:{_MORE}|{_GOOD}|{_NOUN}),?:? ){{0,6}}{_letter('led', _END)}"
    rf"|(?<!(?-i:[A-J]))(?<!(?-i:[A-J]\)))(?:{_OPEN}|mak(?:es|ing) |only )(?:{_NOUN} )?"
    rf"{_letter('judged', '')}{_GAP}(?:{_IS}(?:,? (?:{_MORE}|{_GOOD})){{0,4}} (?:{_GOOD}|answer)"
    rf"| the {_GOOD}| fits| works| matches| remains){_ENDS}"
    rf"|(?:^|\n)(?:{_NOUN} )?{_letter('alone', _END)}(?=.*$)"
    rf"|(?:^|[.,:;\n] ?|\b(?:is|that|of|in|to|with|{_NOUN}) )\((?P<named>(?-i:[A-J]))\)"
)
_OPTION = re.compile(r"(?<![\w'\\^])(?:[B-HJ]|A(?! (?!is)[a-z])|I(?=[).,;/]|$))(?![\w'^/[])")
_STOP = re.compile(r"(?<=[.!?])[\")\]']*(?: |$)|\n")
_TURN = re.compile(r"(?i)\b(?:but|however|yet|no[,:]|wait|actually|rather)\b")
_SUPPOSED = re.compile(
    r"(?i)\b(?:if|unless|suppos\w+|assum\w+|imagine|whether|maybe|perhaps|might|could|sa(?:ys|id)|wr"
    r"(?:ites?|ote)|claim\w*|th(?:inks|ought)|some say|guess|format|example|joke|flawed|naive|seems"
    r"|according to (?!the|this|our)|(?<!I )(?<!we )would(?! be))\b|[?\"]|\\f?box|^ ?(?:were|had)\b"
)
_DOUBT = re.compile(
    r"(?i)\b(?:not|no|nor|n?ever|none|cannot|n?either|but|in?correct|wrong\w*|false|invalid|error"
    r"|mistake\w*|however|actually|wait|except|doubt\w*|un(?:likely|certain|sure)|contra\w+|ignore"
    r"|disregard|forget|reject\w*|refuse|excluded|oops|hmm+|hardly|barely|also|all|both|each|others?"
    r"|again|opposite|reverse|im?possible|instead|nothing|as well|hang|far)\b|n't\b|\\ne|[?¬✗❌]"
)
_SPOKEN = re.compile(r"(?i)\b(?:I|my|me|answers?|options?|choices?|correct|final|that|trap|lie)\b")


def stated(text: str, naming: Callable[[str], str]) -> str:
    """Return the letter that a text last states as its answer; empty if it states none or denies
    it. The function `naming` returns the letters of the choices that have a given text."""
    hits = [*_SAID.finditer(text)]
    spelled = [hit for hit in hits[-1:] if (hit["named"] or "-") in naming(text[hit.end() :])]
    for match in spelled or [hit for hit in hits if not hit["named"]][-1:]:
        start, end = match.span(match.lastgroup or 0)
        letter, after = text[start], text[end:]
        *_, above, line = ["", *text[:start].split("\n")]
        goes_on = re.match(r"\W+[a-z]", after) and letter not in naming(after)
        listed = goes_on or _OPTION.search(line) or re.match(r"\(?[A-J][.:)]", above)
        if not (listed and (spelled or match["alone"])):
            return letter * upheld(line[-300:], letter, after, naming)
    return ""


def upheld(before: str, letter: str, after: str, naming: Callable[[str], str]) -> bool:
    """Return whether no word around a letter denies or doubts it, or names another letter."""
    said, rest = _TURN.split(_STOP.split(before)[-1])[-1], _STOP.split(after)[0]
    named = [naming(part.rpartition(":")[2]) for part in _STOP.split(after)]
    if letter in naming(words := _STOP.split(after.lstrip(" .:)]"))[0]):
        rest, after = "", after.partition(words)[2]
    doubt = _DOUBT.search(f"{said.rpartition(',')[2]}\n{after}") or _SPOKEN.search(after, len(rest))
    other = {*_OPTION.findall(after), *"".join(names for names in named if letter not in names)}
    return not (other - {letter} or doubt or _SUPPOSED.search(f"{said}\n{rest}"))
