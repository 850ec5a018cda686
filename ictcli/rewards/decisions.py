"""The letter that a response decides on in words: a small grammar, read sentence by sentence.

Every word and mark becomes one character, its kind (`_KINDS`): "So the answer is (B)." becomes
`kdnbO,`. The rules are regular expressions over these characters. A clause decides on letters,
refuses some, withdraws what was decided, or says nothing: a question, a condition, a supposition,
what others say. The last decision counts, unless its letter is refused after it.
docs/verifier.md has the rules in words.
"""

import re
from collections.abc import Callable, Iterator

LONGEST = 20_000
"""Characters at the end of a response in which a decision in words may stand."""

_KINDS: dict[str, str] = {
    word: kind
    for kind, words in {
        "d": "the my our",
        "n": "answer ans response statement verdict option choice letter "
        "alternative selection solution",
        "N": "answers options choices letters both",
        "g": "correct right best final only most closest nearest accurate appropriate suitable "
        "likely logical reasonable actual proper remaining accepted expected chosen overall "
        "ideal intended revised updated corrected",
        "w": "wrong incorrect avoid rejected dismissed discarded trap mistaken mistake error "
        "eliminated excluded impossible out",
        "b": "is are am equals",
        "m": "must should would will shall",
        "B": "be",
        "p": "can",
        "x": "no nothing not never neither nobody none cannot without hardly unlikely instead "
        "rather unlike",
        "e": "eliminate exclude reject discard eliminating excluding rejecting",
        "h": "maybe perhaps possibly may might could seem seems appear appears look looks looked "
        "was were been had thought guessed guess initially originally earlier previously tempted "
        "tempting says said claims claimed claim told argue argues thinks believes suggested "
        "false untrue doubt doubtful deny denies wonder used another different opposite almost "
        "partly partially half careless chose picked glance instinct",
        "q": "think believe say guess feel mean meant",
        "i": "if unless whether suppose supposing assume assuming imagine except pretend provided "
        "otherwise depends depending",
        "s": "i we us me you",
        "t": "it that this which",
        "v": "choose choosing pick picking select selecting",
        "l": "means makes making agrees consistent leaves leaving corresponds "
        "corresponding matches matching",
        "R": "remains fits works work satisfies",
        "f": "to for of among from with in left",
        "y": "because since",
        "k": "so thus therefore hence but however yet finally consequently accordingly yes "
        "actually now conclusion correction conclude",
        "j": "while although though whereas",
        "a": "and plus",
        "o": "or nor alternatively",
        "+": "also too equally",
        "!": "wait hmm oops sorry",
        "W": "scratch ignore disregard forget strike",
        "1": "one fit match",
        "": "then clearly definitely indeed certainly obviously surely probably simply just really "
        "still do does did there here let again well ok okay oh above below",
    }.items()
    for word in words.split()
}
_MARKS = {",": ",", ")": ",", "(": "(", ":": ":", "=": ":", "-": ":", ";": ";", "/": "a", "&": "a"}

_SPELLING = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"\u2019", "'"),
        (r"(?s)<!--.*?(?:-->|$)|<del>.*?</del>|~~[^~\n]*~~|(?m:^[ \t]*>[^\n]*$)", " "),
        (
            r"(?i)\b(says|said|reads|claims|asks|states|wrote):? *"
            r"['\"\u201c][^'\"\u201d\n]*['\"\u201d]",
            r"\1",
        ),
        (r"\\(?:text(?:bf|rm|it)?|math(?:rm|bf|sf)|bf)(?![a-z]) ?|\\[(){}\[\],;! ]", ""),
        (r"(?<=[_^])\{|[\u201c\u201d#]", ""),
        (r"[{}]", " "),
        (r"(?<![*_`\"$])([*_`\"$]++)[(\[]?([A-J])([.):]?)\)?\1(?!\w)", r"(\2) "),
        (r"(?m)^[ \t]*\*(?= )", "-"),
        (r"\*+|(?<![A-Za-z\d])_+|_+(?![A-Za-z\d])|[`\"$]", ""),
        (r"\\(?:[lL]ong)?[rR]ightarrow|[→⇒➔∴]|(?<![=-])[=-]++>|\\therefore", " therefore "),
        (r"[\u2013\u2014]|--+", " - "),
        (r"(?<=[:,=])\s*\n\s*|(?i:(?<=\bis))\s*\n\s*|\n(?=[a-z])", " "),
        (r"(?i)\bans\.", "answer:"),
        (r"(?i)\b(wo|ca|can|n)(?:n't|'t|not)\b", "can not"),
        (r"(?i)n't\b", " not"),
        (r"(?i)\b(it|that|this|which)'s\b", r"\1 is"),
        (r"(?i)\b(i|we)'(?:ll|d)\b", r"\1 will"),
        (r"(?i)\bi'm\b|\blet's\b", "we are"),
        (r"\.\.\.|…", ", "),
        (
            r"(?i)\b(?:on second thoughts?|never mind|hold on|i disagree|leave it open|just kidding"
            r"|none of (?:them|these)|i (?:was|am) (?:wrong|not sure|unsure)"
            r"|(?:take|retract) (?:that|it|this)(?: back)?"
            r"|(?:that|this|it) (?:is|was) (?:an?|my) (?:error|mistake|joke)"
            r"|(?:ignore|disregard|forget|scratch|strike) (?:the|my) (?:previous|last|above)"
            r"|the (?:book|key|text|source) is wrong)\b|(?<=[.!] )(?:no|not|false|wrong)(?=[.!])",
            "; oops",
        ),
        (r"(?i)\b(?:(?:any|every|no)thing but|all but|far from)\b", "not"),
        (r"(?i)\bas well as\b", "and"),
        (r"(?i)\bbut rather\b", "but"),
        (r"(?i)\(assuming\b", "since "),  # behind a decision it is a remark
        (r"(?i)(?<=[a-z] )as (?=(?:it|we|they|this|there|all|the)\b)", "since "),
        (r"(?i)\bas (?:the|my|our)(?: \w+)? (?:answer|choice|option)\b", ""),
        (r"(?im)\bin case\b|(?:^|(?<=[.;!] ))(?:were|had) ", "if "),
        (r"(?i)\b(?:ha[sd]|have|ought|needs?)(?: got)? to be\b", "must be"),
        (r"(?i)\b(?:turns|comes) out (?:to be|as)\b", "is"),
        (r"(?i)\b(?:going|go|opt|settle|settling|vote) (?:with|for|on)\b", "choose"),
        (r"(?i)\b(?:ruled?|ruling) out\b", "eliminated"),
        (r"(?i)\b(?:no|without(?: an?y?)?) doubt,?", "clearly"),
        (r"(?i)\bby elimination\b", "therefore"),
        (r"(?i)\b(maybe|perhaps|possibly|at first),", r"\1"),
        (r"(?i)\be\.g\.", "maybe"),
        (r"(?i)\bi\.e\.,?", "which is"),
    )
]
_TOKEN = re.compile(
    r"(?<![\w\\^])(?:[(\[] ?([A-J]) ?[)\]](?![\w'^_=])|(?:(?<=\n)|(?<=\n\())([A-J])[.:)] (?=\S)"
    r"|([A-J])\)(?![\w'^_=]))"  # 1 to 3: an option in brackets, or before its text
    r"|(?<![\w\\^'+*<>.-])([A-J])(?![\w\\'^]| ?[=+*^<>]|[-.]\w)"  # 4: a letter alone
    r"|([A-Za-z]+|\d)|((?<![.!?])[.!?]++(?=[\s)]|$)|\n)|([,;:()=/&-])|[^\s]"
)
_OPTION = re.compile(  # behind A and I, which else are the article and the pronoun
    r"(?! ?[a-z]| [A-Z]{2})| (?:is|has|or|and|because|since|as|fits|remains)\b"
    r"| (?:can|could|must|should|would|may|might)(?: not)? be (?:the|right|correct)"
)
_SHORTER: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"([u,;:(kdghN])\1+"), r"\1"),
    (re.compile(r"(?<=O);(?=[aod(]*[dn]*O(?!x?b))"), ","),  # A; B
    (re.compile(r"(?<![^,;k])x(?=,)"), "k"),  # no, ...
    (re.compile(r"[pm]xB"), "bx"),  # cannot be, must not be
    (re.compile(r"pgB|mk*B"), "b"),  # can only be, must be
    (re.compile(r"s[mp]?q"), "s"),  # I think, we can say
    (re.compile(r"(?<=[bm])(?:,?k,?)+(?=[^,])|(?<=[nO]),?k,?(?=b)"), ""),  # is, therefore,
    (
        re.compile(r"(?:^[k,]*|(?<=[kj]))y[^,;k]*(?=,)"),
        lambda reason: f"u{'0' * _options(reason[0])}",
    ),
    (re.compile(r"y[^;k]*"), lambda reason: f"y{'0' * _options(reason[0])}"),
]
"""What is read as less. An option in a reason becomes 0."""

_NAMED = r"[(:]?d*[gnN]*:?"
_MORE = f"(?:[,;ao+h(]*{_NAMED}O,?)"
_ALL = f"[N+]?{_NAMED}(?P<letters>O,?{_MORE}{{0,9}}+)"
_GROUP = f"[N+]?{_NAMED}(?P<letters>O,?(?:{_MORE}{{1,9}}+(?!x?[blRm]))?)"  # of "B, C is wrong": B
_ANSWER = r"(?:d[dg]*[v1q]|d[dg]*n+|(?<![uwhgdnOo1])g*n+)"
_ASIDE = r"[^,:;Obxhwi]{0,12}"
_JUDGED = r"(?P<no>x|(?=w))?\+?(?:w|d*(?:g+(?![fugn1])|g*n(?!u))|[dg]+1)(?:tR)?"
_END = r"(?=[,:;+yakjo(]|$)(?![,ao;(]*[dn]*O)"
_RULES = [
    re.compile(pattern)
    for pattern in (
        # the answer is B; B is correct; it is B; so B; I choose B; that leaves B; only B remains
        rf"{_ANSWER}(?:tbg+|g?[ft]{_ASIDE})?,?(?::|b(?:,{_ASIDE})?,?):?(?P<no>x)?{_GROUP}",
        rf"(?<=b)(?P<letters>O),?x?b{_JUDGED}{_END}",
        rf"(?<![^,:(ktajnols])(?<!O[ao]){_ALL}(?:[(,:][uk]+[,:]|,?u)?x?b{_JUDGED}{_END}",
        rf"(?<![^,kos])tb,?(?P<no>x)?{_GROUP}{_END}",
        rf"^k[k,:]*{_GROUP}{_END}",
        rf"(?<![^,ko])(?:[s1]?[bm]?(?P<no>x)?v|s[bm]?n|s(?=O)){_GROUP}{_END}",
        rf"l[fs]*(?P<no>x)?{_GROUP}(?:(?=dg*n)|{_END})",
        r"(?<![uh])gd*n*(?P<letters>O),?(?:R|bf)",
        # ... (option B); final answer B; or B; not B; wait, ignore that, that is wrong, I was wrong
        r"\(n(?P<letters>O),$",
        rf"^d*g+[n:](?P<letters>O){_END}",
        rf"^o[h,t]*b?{_GROUP}{_END}",
        rf"(?P<no>[xe])f?{_ALL}",
        r"(?P<letters>^[kx,]*(?:!|Wt|s[bhu]{0,3}w(?:,|$))|(?:^|,)[k,]{0,9}t(?:b(?:w|u?xg|uw)|xR)(?!O))",
    )
]
"""What decides, refuses (with a group "no") or, the last, withdraws ("wait", "that is wrong")."""


def decided(text: str) -> str:
    """The letters that a text decides on in words: empty if none, several if it names several."""
    letters = ""
    for kinds, options in _sentences(text[-LONGEST:]):
        for clause in re.finditer(r"(?:[kj][^kj;]*|[^kj;]+)", kinds):
            if "i" not in clause[0]:
                place = _options(kinds[: clause.start()])
                letters = _after(letters, clause[0], options[place:])
    return letters


def _after(letters: str, clause: str, options: str) -> str:
    """The letters decided on after a clause, given its options and the letters before it."""
    matches = [match for rule in _RULES for match in rule.finditer(clause)]
    for match in sorted(matches, key=lambda match: match.start("letters")):
        start, end = match.span("letters")
        place = _options(clause[:start])
        named = options[place : place + _options(clause[start:end])]
        before = re.split("[,:a]", clause[: match.start()])[-1]
        after = re.split("[,O]", clause[match.end() :], maxsplit=1)[0]
        if not named or match.groupdict().get("no") is not None:
            letters = "" if not named or set(letters) & set(named) else letters
        elif re.search("o[^Oo]*$", clause[:start]) or "+" in match[0] + after[:1]:
            letters += named
        elif not re.search("[hxwq]", before) and not re.search("[hw]", after):
            letters = named
    return "".join(dict.fromkeys(letters))


def named(text: str) -> str:
    """The letters in a text, each once."""
    return "".join(dict.fromkeys("".join(options for _, options in _sentences(text))))


def silent(text: str) -> bool:
    """Whether a text names no letter and says nothing of one: it has no verb, hedge or "not"."""
    return not any(re.search("[Obxhwiq]", kinds) for kinds, _ in _sentences(text))


def spelled(text: str) -> str:
    """A text with contractions and arrows as words, without LaTeX's styles and emphasis; an
    emphasised letter is in brackets."""
    for pattern, spelling in _SPELLING:
        text = pattern.sub(spelling, text)
    return text


def _options(kinds: str) -> int:
    return kinds.count("O") + kinds.count("0")


def _sentences(text: str) -> Iterator[tuple[str, str]]:
    """The kinds of each sentence, and the letters of its options. Questions are left out."""
    kinds, options = "", ""
    for token in _TOKEN.finditer(f"\n{spelled(text)}\n"):
        bracketed, letter, word, stop, mark = token[1] or token[2] or token[3], *token.groups()[3:]
        if letter in ("A", "I") and not _OPTION.match(token.string, token.end()):
            letter, word = None, letter  # the article, the pronoun
        if stop:
            if kinds and "?" not in stop:
                for pattern, shorter in _SHORTER:
                    kinds = pattern.sub(shorter, kinds)
                yield kinds, options
            kinds, options = "", ""
        elif option := bracketed or letter:
            kinds += "O," if bracketed else "O"
            options += option
        else:
            kinds += _KINDS.get(word.lower(), "u") if word else _MARKS.get(mark, ",")
