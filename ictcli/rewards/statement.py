"""The letter that a response says is the answer, in linear time. The last decision counts; what is
asked, supposed, denied or taken back decides nothing. docs/verifier.md has the rules in words."""

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
    rf"(?:^|[.!?;,\n] ?|\b(?:so|and|but|yet) )(?:(?:{_SO}|then|that|and|now|finally|overall|here"
    r"|clearly|obviously|okay|yes|wait|in \w+\b(?: \w+\b)?|step \d+|conclusion|correction|update"
    r"|(?:we|i)(?: can)? (?:conclude|see|find|know|think|believe|say)|(?:this|it|which) (?:means"
    r"|implies|shows|follows|tells us|is clear)|i(?:'m| am) (?:\w+ )?(?:sure|certain|confident))"
    r"[,:]? ?){0,6}"
)
_letter = r"[(\[]?(?P<{}>(?-i:[A-J]))(?![\w'^&~\\\[-]| ?[=+*/<>]|[.:(]\w{})".format
_END = r"| (?!because|since|as|for|due|given|with|and the|not|but)[a-z]"
_ENDS = (
    rf"(?: {_NOUN}| one| that fits| best| this| all| here){{0,2}}(?=\W*$|[.,;:!)\n]| because| since"
    r"| as| due| given| (?:of|among) (?:all|the|these|them)| (?:to|for) (?:the|this))"
)
_SAID = re.compile(
    rf"(?i)(?:{_OPEN}(?:(?:{_MORE} )?(?:{_GOOD} ){{0,4}}{_NOUN}\b(?:{_GAP}{_IS}|{_IS}? ?[:=]| -)"
    rf"|{_SO}|only|(?:it|this|that|which){_IS}|(?:i|we)(?:'d| would| will)? (?:choose|pick|select"
    r"|have|get|say|think|answer|conclude)|(?:result|verdict|conclusion):)|\b(?:leav(?:es|ing)|gives"
    r"|points to|mak(?:es|ing)|match(?:es|ing)|(?:go|going|left|us|agrees|consistent) with"
    r"|correspond(?:s|ing) (?:to|with)))[,:]? ?"
    rf"(?:(?:{_MORE}|{_GOOD}|{_NOUN}),?:? ){{0,6}}{_letter('led', _END)}"
    rf"|(?:{_OPEN}|mak(?:es|ing) |only )(?:{_NOUN} )?{_letter('judged', '')}{_GAP}(?:{_IS}"
    rf"(?:,? (?:{_MORE}|{_GOOD})){{0,4}} (?:{_GOOD}|answer)| the {_GOOD}| fits| works| matches"
    rf"| remains){_ENDS}|(?:^|\n)(?:{_NOUN} )?{_letter('alone', _END)}[).\]:]*+(?! [a-z])(?=.*$)"
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
    r"|mistake\w*|however|actually|wait|except|doubt\w*|un(?:likely|certain|sure)|contra\w+|lies?"
    r"|ignore|disregard|forget|reject\w*|refuse|excluded|oops|hmm+|hardly|barely|also|all|both|each"
    r"|others?|correction|again|opposite|reverse|im?possible|instead|book|joke|redo|delete|trap"
    r"|nothing|as well|far from|hang on|\w*example|second best)\b|n't\b|\\ne|[?¬✗❌]"
)
_SPOKEN = re.compile(r"(?i)\b(?:I|my|me|answers?|options?|choices?|correct|final|that)\b")


def stated(text: str, naming: Callable[[str], str]) -> str:
    """The letter of the last decision of a plain text; empty if there is none, or it does not
    stand. `naming` gives the letters of the choices that a text is."""
    found = [*_SAID.finditer(text)]
    own = [each for each in found[-1:] if (each["named"] or "-") in naming(text[each.end() :])]
    for match in own or [each for each in found if not each["named"]][-1:]:
        start, end = match.span(match.lastgroup or 0)
        *_, above, line = ["", *text[:start].split("\n")]
        listed = _OPTION.search(line) or re.match(r"\(?[A-J][.:)]", above)
        if not (listed and (own or match["alone"])):
            return text[start] * upheld(line[-300:], text[start], text[end:], naming)
    return ""


def upheld(before: str, letter: str, after: str, naming: Callable[[str], str]) -> bool:
    """Whether no word around a letter supposes, denies or doubts it, or names another letter."""
    said, rest = _TURN.split(_STOP.split(before)[-1])[-1], _STOP.split(after)[0]
    named = {each for part in _STOP.split(after) for each in naming(part.rpartition(":")[2])}
    if letter in naming(words := _STOP.split(after.lstrip(" .:)]"))[0]):
        rest, after = "", after.partition(words)[2]
    doubt = _DOUBT.search(f"{said.rpartition(',')[2]}\n{after}") or _SPOKEN.search(after, len(rest))
    other = named.union(_OPTION.findall(after)) - {letter}
    return not (other or doubt or _SUPPOSED.search(f"{said}\n{rest}"))
