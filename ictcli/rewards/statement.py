"""The letter that the last statement of a response says is the answer.

The statement stands at the end and is read whole, by one pattern (`_STATEMENT`): what no part of it
reads decides nothing, and what was said before it does not matter. docs/verifier.md has the rules
in words.
"""

import re
from collections.abc import Callable

LONGEST = 2_000
"""Characters of the last line that may be a statement."""

Naming = Callable[[str], str]
"""The letters of the choices that are a text."""

_HIDDEN = re.compile(
    r"(?s)<!--.*?(?:-->|$)|<(del|s|think)>.*?</\1>|~~[^~\n]*~~|(?m:^[ \t]*(?:[-*+] )?>[^\n]*$)"
    r"|\[//\]: #[^\n]*"
)
_FAREWELLS = re.compile(
    r"(?:(?:^|\n|(?<=[.!]) )(?i:i hope|hope|(?:please )?let me know|feel free)"
    r"(?: (?!(?:but|or|though|however|also|and|unless)\b)[^\n.!,;: A-J]+)*[.!]?)+$"
)
_LONGEST_FAREWELLS = 500
_LAYOUT = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"'([A-J])'", r"\1"),
        (r"(?m)^[ \t]*\*(?= )", "-"),
        (r"</?(?:answer|think|b|i|strong|em|p|br) ?/?>", "\n"),
        (r"\\(?:text(?:bf|rm|it|sf)?|math(?:bf|rm|sf)|bf)(?![a-z]) ?\{([^{}]*)\}", r"\1"),
        (r"\\(?:begin|end)\{\w+\*?\}|\\\[|\\\]|\$\$|\$(?= ?[A-Z][a-z]+ )", "\n"),
        (r"[\u2018\u2019]", "'"),
        (r"\\[(),;:! ]|[*`$]|(?m:^ *#+)|(?<!\w)_+|_+(?!\w)|\u00a0", " "),
        (r"\\(?:[lL]ong)?[rR]ightarrow|\\therefore|[→⇒➔∴]|=>", " so "),
        (r"\b([Ii]t|[Tt]h(?:is|at)|[Aa]nswer|[Oo]ption|which)'s\b", r"\1 is"),
        (r"\bI'(?:d|ll)\b", "I would"),
        (r"(?m)^[ \t]*(?:[-•+]|\d+[.)])[ \t]+(?!\(?[A-J]\W*$)", ""),
        (r"[\u201c\u201d]", '"'),
        (r"[\u2013\u2014]", "-"),
        (r"[^\S\n]+", " "),
        (r" (?=[:,.])", ""),
        (r" ?\n[ \n]*", "\n"),
        (r"(?<=,)\n|\n(?=[a-z])", " "),
        (
            r"(?i)((?:^|\n)[a-z ]{0,30}(?:answer|choice|option|conclusion|so|thus|hence|therefore)"
            r"(?: is)?:?)\n",
            r"\1 ",
        ),
    )
]
_NOUN = (
    "(?:answer(?: choice)?|ans\\.?|result|option|choice|letter|statement|alternative|response"
    "|selection|solution|verdict)"
)
_GOOD = (
    "(?:correct|right|best|better|final|only|most|closest|nearest|likely|plausible|accurate"
    "|appropriate|suitable|logical|reasonable|proper|remaining|overall|chosen|selected|revised|corrected)"
)
_SURELY = "(?:therefore|thus|then|hence|clearly|indeed|certainly|definitely|simply)"
_IS = (
    rf"(?:,? {_SURELY},?)? (?:is|must be|should be|would be|will be|has to be|can only be)"
    rf"(?: {_SURELY},?)?"
)
_OPENER = (
    "(?:(?:so|thus|hence|therefore|then|consequently|accordingly|finally|overall|ultimately|ergo"
    "|and|but|no(?=[,.:]| wait)|yes|wait|actually|rather|instead|now|here|okay|clearly|obviously"
    "|indeed|only|correction|conclusion|solution|(?:final |correct )*answer(?=:)|as a result"
    "|as such|for (?:this|these) reasons?|in other words|all things considered|by elimination"
    "|in (?:conclusion|summary|short|this [a-z]+|the end)|step \\d+"
    "|to (?:conclude|summarize|sum up)"
    "|(?:this|that|it|which) (?:means|implies|shows|indicates|follows|tells us|is clear)(?: that)?"
    "|(?:we|i|you) (?:can )?(?:conclude|see|find|believe|think|know|say|would say)(?: that)?"
    "|(?:i am|i'm|we are) (?:fairly |quite )?(?:sure|certain|confident)(?: that)?)(?:[,:.-]| -)* )*"
)
_LETTER = (
    rf"(?:(?:the )?(?:{_GOOD} )*(?P<noun{{n}}>{_NOUN})(?: letter)?:? )?[(\[\"]?"
    r"(?P<letter{n}>[A-J])(?![\w^=+*/<>'\\-])(?P<mark{n}>[)\]\"']?)"
)
_TO = "(?: (?:to|for) (?:this|the) (?:question|problem)| here)?"
_THAT = "(?: (?:that|which|closest to) (?P<that>(?-i:[^,:;A-J]){1,40}?))?"
_RIGHT = (
    rf"(?:(?:the|my|our) (?:{_GOOD} )+(?:{_NOUN}|one){_TO}|(?:the|my) answer{_TO}"
    rf"|(?:the )?(?:{_GOOD} ?)+)(?: that fits)?"
)
_FITS = " (?:remains|(?:fits|works|matches|satisfies)(?: best| this| all| the [a-z]+)?)"
_LEADS = (
    rf"(?:(?:the|my|our) )?(?:{_GOOD} )*(?:{_NOUN}|one){_TO}{_THAT}"
    rf"(?:{_IS}:?(?: given by| number)? | ?[:=-] ?)"
    rf"|(?:it|this|that)(?:{_IS}|'s) (?:the )?"
    r"|(?:i|we) (?:would |will |must )?"
    r"(?:choose|pick|select|have|get|answer(?: with)?|go (?:with|for)) "
    r"|(?:i am|i'm|we are|we're) (?:going|left) with (?:only )?"
    r"|(?:(?:it|this|that|which) )?(?:leaves|matches|gives|corresponds (?:to|with)|agrees with"
    r"|is consistent with|points to|leaves us with|corresponding to|matching|leaving) (?:only )?"
)
_STATEMENT = re.compile(
    rf"{_OPENER}(?:"
    rf"(?:(?:(?:it|this|that|which) )?mak(?:es|ing) )?{_LETTER.format(n=1)}"
    rf"(?P<inner>[ (,:.-][^?!]*?)??(?P<right>{_IS} {_RIGHT}| {_RIGHT}|{_FITS})"
    rf"|(?P<led>{_LEADS})?{_LETTER.format(n=2)}"
    r")(?P<tail>.*)",
    re.I,
)
_REASON = re.compile(
    r"(?<![.!;])(?<![.!;] ),? ?\b(?:because|since|as (?=(?:it|this|that|they|we|the) )"
    r"|(?<=, )as (?!long|far|if|for|soon|a )|due to|given that) ?(?P<reason>.+)",
    re.I,
)
_TWICE = re.compile(
    r"\b(?:but|or|also|others?|none|(?:no|correct) (?:option|choice|one)|missing|not listed"
    r"|(?:not |im)possible)\b"
)
_OTHERS = re.compile(
    r",? (?:and )?(?:not|rather than|instead of) (?P<others>(?:(?:,? (?:or|and) |, )?"
    r"(?:option )?\(?[A-J]\)?)+)(?: [^,;.?!A-J]*$)?"
)
_JOINT = re.compile(
    r"(?P<but>[,;]? (?:but|however|yet),?(?: rather)? )"
    r"|(?P<so>[,;:]? (?:and )?(?:so|thus|hence|therefore|i\.e\.,?|meaning|making)(?: that)?,? )"
    r"|(?P<which>,? (?:which (?:is|would be|makes|means)|that is,?) |,? and "
    rf"(?=(?:the|my|our) (?:{_GOOD} )*{_NOUN}))"
    r"|(?P<verb>,? (?=(?:which )?(?:corresponds? to|match(?:es)?|leaves|leaving|matching"
    r"|corresponding to|points to|is consistent with|agrees with) ))"
    r"|(?P<bracket> \((?=(?:option|choice|answer) ))|(?P<comma>, )",
    re.I,
)
_CONCEDES = re.compile(r"(?:al|even )?though\b|while\b|despite\b", re.I)
_LEAD = re.compile(
    _OPENER + r"(?:since|because|as|given|based on|after|when we|by|due to"
    r"|according to (?:the|this|our|[a-z]+'s)|(?:out )?of|from (?:the|this|these|our)|among|between"
    r"|comparing|considering|eliminating|looking at|using|under|upon|with)\b",
    re.I,
)
_SUPPOSED = re.compile(
    r"\b(?:if|unless|suppos\w+|assum\w+|imagine|pretend|whether|maybe|perhaps|might|could|would"
    r"|says?|said|writes?|wrote|claims?|claimed|thinks?|thought|\w+ed that|argu\w+|maintains"
    r"|he|she|they|students?|friend|example|such as|e\.g|provided|as long as"
    r"|believed?|reported|error"
    r"|misread\w*|possibly|unlikely|instance|format|form|template|hypothe\w+|guess|coin|key"
    r"|book|prompt|incorrect|false|instead|barely|hardly|wrong\w*|naive|flawed|mistake\w*|tempting"
    r"|trap|distractor|jok\w+|eliminate|discard|reject)\b|[\"?]",
    re.I,
)
_PRONOUN = re.compile(r"\b(?:he|she|they)\b", re.I)
_DOUBT = re.compile(
    r"\b(?:not|no|nor|never|none|or|but|wrong\w*|false|incorrect|maybe|perhaps|unless|if|though"
    r"|also|too|however|actually|wait|except|either|mistake|error|trap|example|ignore|disregard"
    r"|forget|scratch|kidding|rejected|eliminated|withdrawn|mistaken|unlikely|hardly|uncertain|oops"
    r"|sorry|misread|assuming|provided|says|take (?:it|that) back|retract|doubt\w*|unsure"
    r"|question|fails?|ruled|was|least|nobody|nowhere|hmm+)\b|n't\b|[?¬~✗❌]|\.\.",
    re.I,
)
_DENIED = re.compile(
    r"\b(?:not|cannot|never|nobody|either|doubt|avoid|rule out|fool|complement|anything but)\b"
    r"|n't\b|\\ne",
    re.I,
)
_CLOSED = re.compile(r"(?!.*\.\.)[] .!:;,)}\"']*")
_SUPPOSES = re.compile(r"(?:let us |let's |now )?(?:suppose|assume|imagine|pretend)\b", re.I)
_SO = re.compile(r"(?:so|thus|hence|therefore|(?:final |correct )*answer:)(?!\w)", re.I)
_TURN = re.compile(r"(?:no|wait|actually|but|rather|correction)\b", re.I)
_OPTION = re.compile(
    r"(?<![\w'\\^])(?:[B-HJ]|A(?! (?!is|and|or|fits|works)[a-z])|(?<=\()I(?=\)))(?![\w'^\\])"
)
_QUANTITY = re.compile(
    r"[^a-zA-Z]*\d[^a-zA-Z]*(?:(?!sure|certain|of\b|other)[a-zA-Zµ²³^/.]{1,12} ?){0,2}"
)
_REMARK = re.compile(
    r"\b(?:let|i|we|you|my|it|this|that|is|are|has|have|does|do|can|will|check|because|since)\b",
    re.I,
)
_HEAD = re.compile(r"(?:option |choice )?[(\[]?(?P<letter>[A-J])(?:[)\].:]|$)", re.I)


def shown(response: str) -> str:
    """A response without what Markdown hides, strikes out or quotes."""
    if not any(sign in response for sign in ("<", "~~", ">", "[//")):  # 10 MB take a second
        return response
    return _HIDDEN.sub(" ", response)


def plain(text: str) -> str:
    """A text without emphasis and styles, and without farewells at its end."""
    for pattern, replacement in _LAYOUT:
        text = pattern.sub(replacement, text)
    farewells = _FAREWELLS.search(text, max(0, len(text) - _LONGEST_FAREWELLS))
    return text[: farewells.start() if farewells else None].strip()


def stated(response: str, naming: Naming | None = None) -> str:
    """The letter of the last statement of a response: empty if it says none, several if it names
    the letter with the text of another choice. `naming`: None if the choices are unknown."""
    *lines, line = ["", *plain(response[-20_000:]).split("\n")]
    above, this = _HEAD.match(lines[-1]), _HEAD.match(line)
    if len(line) > LONGEST or (above and this and above["letter"] != this["letter"]):
        return ""  # one of a list of choices
    for start in (0, *(stop.end() for stop in re.finditer(r"[.!?;][\")]* +(?=\S)", line))):
        before = re.split(r"(?<=[.!?]) ", (line[:start] or lines[-1]).strip())[-1]
        if before.endswith(":") or _SUPPOSES.match(before):
            continue
        whole = not before or before[-1] in ".!?"
        if letter := said(line[start:], naming, alone=start == 0 and whole):
            other = said(before, naming)
            turned = other in ("", letter) or _TURN.match(line, start)
            return letter if turned else other + letter
    return ""


def upheld(before: str, after: str, letter: str) -> bool:
    """Whether the sentences around a marked letter leave it the answer: the words before it suppose
    and deny nothing, and nothing after it names another letter or takes it back."""
    before = re.split(r"[.!?][\")]*\s|\n\n", plain(before))[-1]
    before = re.sub(r'"([^"]*)"', r"\1", before)  # a word in quotes is no speech
    if before.endswith((".", "!")):  # who is told of in a sentence that ended says no answer
        before = _PRONOUN.sub("", before)
    after = plain(after)
    others = set(_OPTION.findall(after)) - {letter}
    denied = _DENIED.search(before)
    return not (others or denied or _SUPPOSED.search(before) or _DOUBT.search(after))


def said(text: str, naming: Naming | None = None, *, alone: bool = True) -> str:
    """The letter that a sentence says is the answer; `alone`: a letter without words will do."""
    if letter := letter_of(text, naming, alone=alone):
        return letter
    concedes = bool(_CONCEDES.match(text))
    for joint in _JOINT.finditer(text):
        before, rest = text[: joint.start()], text[joint.end() :]
        if joint["comma"] and not (concedes or _LEAD.match(text)):
            continue
        if not (joint["but"] or concedes) and _SUPPOSED.search(before):
            continue
        if joint["verb"] and _DOUBT.search(before.rpartition(",")[2]):
            continue
        if joint["bracket"]:
            rest = rest.replace(")", "", 1)
        follows = bool(joint["so"] or joint["which"] or joint["bracket"])
        if letter := letter_of(rest, naming, alone=follows, named=True):
            other = "" if joint["but"] else letter_of(before, naming, alone=False)
            return letter if other in ("", letter) else other + letter
    return ""


def letter_of(text: str, naming: Naming | None, *, alone: bool = True, named: bool = False) -> str:
    """The letter of a text that is one statement; `named`: words before it name the letter."""
    match = _STATEMENT.fullmatch(text)
    if match is None:
        return ""
    judged = bool(match["right"])
    letter, mark = (match[f"{name}{1 if judged else 2}"] for name in ("letter", "mark"))
    if not (judged or match["led"] or match["noun2"] or alone or _SO.match(text)):
        return ""
    tail, that = match["tail"], match["that"] or ""
    if _DOUBT.search(that) or _SUPPOSED.search(that):
        return ""
    if reason := _REASON.search(tail):
        given, tail = reason["reason"], tail[: reason.start()]
        if _OPTION.search(given) or _SUPPOSED.search(given) or _TWICE.search(given):
            return ""
    if (others := _OTHERS.search(tail)) and letter not in others["others"]:
        tail = tail[: others.start()] + tail[others.end() :]
    if not judged:
        return _tailed(letter, mark, tail, naming, named=named or bool(match["led"]))
    inner = match["inner"] or ""
    found = _tailed(letter, mark, inner, naming) if inner.strip(" ,.") else letter
    return found if _CLOSED.fullmatch(tail) else ""


def _tailed(
    letter: str, mark: str, tail: str, naming: Naming | None, *, named: bool = False
) -> str:
    """The letter, if what stands after it can be the text of its choice; both if it is that of
    another. If the choices are unknown, it is a quantity, or words that say no more, after `)`, or
    after `.` if no words name the letter."""
    if not letter.isupper():
        return ""
    if _CLOSED.fullmatch(tail):
        return letter
    text = re.sub(r"^,? (?:which|that) is ", "", tail).strip(" .,:;()[]\"'!-")
    if naming is not None and (others := naming(text)):
        return letter if letter in others else letter + others
    if re.fullmatch("(?i)(?:none|all|both|neither) of (?:the above|these|them)", text):
        return letter
    parted = re.match(r"[])]|[.,:] | [(-]", mark + tail)
    doubtful = _OPTION.search(text) or _DOUBT.search(text)
    if not text or naming is not None or parted is None or doubtful:
        return ""
    words = parted[0][0] in (")]" if named else ")].") and not text[0].islower()
    return letter if _QUANTITY.fullmatch(text) or (words and not _REMARK.search(text)) else ""
