"""The letter that a response says is the answer, in linear time. The last decision counts; what is
asked, supposed, denied or taken back decides nothing. docs/verifier.md has the rules in words."""

import re
from collections.abc import Callable

_LAYOUT = (
    (r"\\(?:text(?:bf|rm|it|sf)?|math(?:bf|rm|sf)|bf)(?![a-z]) ?\{([^{}]*)\}", r"\1"),
    (r"</?(?:answer|b|i|strong|em|p|br) ?/?>|\\(?:begin|end)\{\w+\*?\}|\\[\[\]]|\$\$", "\n"),
    (r"[\u2018\u2019\u201c\u201d]", "'"),
    (r"['\"]([A-J])['\"]|\\[(),;:! ]|[*`$]|(?<!\w)_+|(?<!_)_+(?!\w)|(?m:^ *#+)|[^\S\n]", r" \1"),
    (r"(?m:^ *(?:[-+] )?>.*$)|(?m:^ *(?:[-•+]|\d+[.)]) )|(?<=\n) +| +(?=[ \n:,.])", ""),
    (r",? (?:not|rather than)(?:(?:,| or|, or)? (?:option )?\(?[A-J]\)?)+(?=[.,;]|$)", ""),
    (r"(?<=[:,])\n+|(?<!\n)\n+(?=[a-z])", " "),
    (r"(?i)(?:(?:i )?hope|(?:please )?let me know|feel free)(?-i:[^.!,;:?A-J]{0,99})[.!]?$", ""),
)
_NOUN = r"(?:answer|ans\.?|option|choice|letter|statement|response|selection|alternative|solution)"
_MORE = r"(?:the|my|number|given by|therefore|then|clearly|indeed|certainly|definitely|simply)"
_GOOD = r"(?:correct|right|best|better|only|closest|nearest|remaining|final|most \w+)"
_IS = r"(?:'s|,? (?:then, )?(?:is|(?:must|should|would|will|has to|can only) be))"
_GAP = r"(?:(?!(?-i:\b[A-J]\b))[^.?!:;=\n]){0,60}?"
_letter = r"[(\[]?(?P<{}>(?-i:[A-J]))(?![\w'^&~\\\[-]| ?[=+*/<>]|[.:(]\w{})".format
_END = r"| (?!because|since|as|for|due|with|and|or|by|if|not|but|the|unless|when|which)[a-z]"
_SAID = re.compile(
    rf"(?i)(?:\b{_NOUN}\b{_GAP}(?:{_IS}| ?[:=]| -)|\b(?:it|this|that|which){_IS}|\b(?:choose|pick"
    r"|select|have|get|say|conclude|think|answer|leav(?:es|ing)|gives|points to|mak(?:es|ing)|match"
    r"(?:es|ing)|(?:go|going|left|us|agrees|consistent) with|correspond(?:s|ing) (?:to|with))|(?:^"
    r"|[.!?;,:\n] ?)(?:so|thus|hence|therefore|actually|only|rather|no|=>|[→∴]|\\therefore))[,:]? ?"
    rf"(?:(?:{_MORE}|{_GOOD}|{_NOUN}),?:? ){{0,6}}{_letter('led', _END)}|(?:^|(?<![A-J])"
    rf"(?<![A-J]\))[,;:.!?\n] ?|\b(?:{_NOUN}|so|that|only|then|thus|hence|therefore|but|think|find"
    rf"|mak(?:es|ing)) ){_letter('judged', '')}{_GAP}(?:{_IS}(?:,? {_MORE})* (?:{_GOOD}|answer)"
    rf"| the {_GOOD}| fits| works| matches| satisfies| remains)\b|(?:^|\n)(?:[a-z ]{{2,30}}: "
    rf"|{_NOUN} )?{_letter('alone', _END)}[).\]:]*(?! [a-z])(?=.*$)|\((?P<named>(?-i:[A-J]))\)"
)
_OPTION = re.compile(r"(?<![\w'\\^])(?:[B-HJ]|A(?! (?!is)[a-z])|I(?=[).,;/]|$))(?![\w'^/[])")
_STOP = re.compile(r"(?<=[.!?])[\")\]']*(?: |$)|\n")
_TURN = re.compile(r"(?i)\b(?:but|however|yet|no[,:]|wait|actually|rather)\b")
_SUPPOSED = re.compile(
    r"(?i)\b(?:if|unless|suppos\w+|assum\w+|imagine|whether|maybe|perhaps|might|could|sa(?:ys|id)|wr"
    r"(?:ites?|ote)|claim\w*|th(?:inks|ought)|(?:some|they|all) (?:say|think)|argue\w*|guess|format"
    r"|wants|example|one option|joke|flawed|naive|seems|(?<!I )(?<!we )would(?! be))\b|[?\"]"
)
_DOUBT = re.compile(
    r"(?i)\b(?:not|no|nor|n?ever|none|cannot|n?either|but|in?correct|wrong\w*|false|invalid|error|as"
    r" well|mistake\w*|however|actually|wait|except|doubt\w*|un(?:likely|certain|sure)|contra\w+"
    r"|lies?|ignore|disregard|forget|reject\w*|refuse|excluded|oops|hmm+|hardly|barely|also|all|both|each"
    r"|others?|correction|again|opposite|reverse|im?possible|instead|book|joke|redo|delete|trap"
    r"|far from|hang on|\w*example|second best)\b|n't\b|\\ne|[?¬✗❌]"
)
_SPOKEN = re.compile(r"(?i)\b(?:I|my|me|answers?|options?|choices?|correct|final|that)\b")


def plain(text: str) -> str:
    """A text without emphasis, styles and quoted lines."""
    for pattern, replacement in _LAYOUT:
        text = re.sub(pattern, replacement, text)
    return text.strip()


def stated(response: str, naming: Callable[[str], str]) -> str:
    """The letter of the last decision, if it stands. `naming`: the letters of choices by a text."""
    found = [*_SAID.finditer(text := plain(response[-20_000:]))]
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
    if named := naming(words := _STOP.split(after.lstrip(" .:)]"))[0]):
        rest, after = "", after.partition(words)[2]
    other = {*_OPTION.findall(after)} - {letter} or letter not in (named or letter)
    doubt = _DOUBT.search(f"{said.rpartition(',')[2]}\n{after}") or _SPOKEN.search(after, len(rest))
    return not (other or doubt or _SUPPOSED.search(f"{said}\n{rest}"))
