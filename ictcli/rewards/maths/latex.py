"""Normalize LaTeX ("tidy" it), so that two normalized texts differ only in their mathematics.

Text within `\\text{}` is put between the marks OPEN and CLOSE, and `\\\\` becomes ROW."""

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from typing import Any

import regex  # has recursive patterns

from ictcli.rewards.maths.vocabulary import SHORT_WORDS, word_list

OPEN, CLOSE, ROW = "\ue000", "\ue001", "\ue002"
UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": "\\cdot ", "⋅": "\\cdot ", "·": "\\cdot ", "∗": "*",
    "÷": "/", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "∪": "\\cup ",
    "∩": "\\cap ", "∈": "\\in ", "∞": "\\infty ", "π": "\\pi ", "√": "\\sqrt ", "±": "\\pm ",
    "∓": "\\mp ", "°": "^\\circ ", "∅": "\\emptyset ", "ℝ": "\\mathbb{R}", "ℤ": "\\mathbb{Z}",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "", "′": "'", "’": "'",
    "≡": "\\equiv ", "→": "\\to ", "⇒": "\\Rightarrow ", "⇔": "\\Leftrightarrow ", "∠": "\\angle ",
    "△": "\\triangle ", "⌊": "\\lfloor ", "⌋": "\\rfloor ", "⌈": "\\lceil ", "⌉": "\\rceil ",
    "⟨": "\\langle ", "⟩": "\\rangle ", "∖": "\\setminus ", "…": "\\dots ",
    "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ", "γ": "\\gamma ", "δ": "\\delta ",
    "λ": "\\lambda ", "σ": "\\sigma ", "φ": "\\phi ", "ω": "\\omega ",
    "Δ": "\\Delta ", "Σ": "\\Sigma ", "Ω": "\\Omega ",
} | {
    sign: f"\\frac{{{above}}}{{{below}}}"
    for sign, above, below in ("½12", "⅓13", "⅔23", "¼14", "¾34", "⅕15", "⅖25", "⅗35", "⅘45", "⅙16",
                               "⅚56", "⅛18", "⅜38", "⅝58", "⅞78")
}  # fmt: skip
_RAISED, _LOWERED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "₀₁₂₃₄₅₆₇₈₉₊₋"
_DIGITS = str.maketrans(_RAISED + _LOWERED, "0123456789+-" * 2)

_DROPPED = word_list(
    "bf rm displaystyle textstyle scriptstyle limits nolimits big Big bigg Bigg bigl bigr Bigl "
    "Bigr biggl biggr left right middle mleft mright hline notag nonumber textdollar dollar "
    "Large large huge Huge LARGE small"
)
SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "times": "cdot", "ast": "cdot", "leq": "le", "leqslant": "le", "leqq": "le", "geq": "ge",
    "geqslant": "ge", "geqq": "ge", "neq": "ne", "lt": "<", "gt": ">", "lbrace": "\\{",
    "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "Vert": "\\|", "lVert": "\\|", "rVert": "\\|",
    "varnothing": "emptyset", "lang": "langle", "rang": "rangle", "div": "/", "colon": ":",
    "R": "mathbb{R}", "Z": "mathbb{Z}", "N": "mathbb{N}", "Q": "mathbb{Q}", "land": "wedge",
    "lor": "vee", "approxeq": "approx", "simeq": "approx",
    "ldots": "dots", "cdots": "dots", "dotsc": "dots", "degree": "^\\circ", "percent": "%",
    "quad": " ", "qquad": " ", "enspace": " ", "thinspace": " ", "newline": " ", "bm": "mathbf",
    "boldsymbol": "mathbf", "bold": "mathbf", "Bbb": "mathbb", "cdotp": "cdot", "lnot": "neg",
    "implies": "Rightarrow", "Longrightarrow": "Rightarrow", "iff": "Leftrightarrow",
    "Longleftrightarrow": "Leftrightarrow", "rightarrow": "to", "pounds": "£",
    "euro": "€", "cents": "¢", "sfrac": "frac",
    "nicefrac": "frac", "varepsilon": "epsilon", "varphi": "phi", "vartheta": "theta",
    "operatorname*": "operatorname", **dict.fromkeys(_DROPPED, ""),
}  # fmt: skip

_WORDY = (
    "text(?:bf|it|rm|normal|sf|tt)?|[mh]box|math(?:rm|sf|it|tt|op)|operatorname|emph|underline"
    "|fbox|boxed|ensuremath"
)
"""Commands whose argument is usually words."""

FUNCTIONS = word_list(
    "arcsin arccos arctan arccot sinh cosh tanh sin cos tan cot sec csc ln log lg exp gcd lcm "
    "max min det"
)

GREEK = word_list(
    "alpha phi theta mu xi eta chi tau varphi gamma Lambda varepsilon Psi beta Gamma upsilon "
    "hbar kappa Pi Sigma zeta iota lambda rho omega ell Xi sigma epsilon Delta nu delta psi "
    "Phi Omega Theta vartheta"
)

OPAQUE = word_list(
    "angle mathscr widehat arc overrightarrow underline tilde mathbb hat mathcal square "
    "triangle bar overarc mathfrak widetilde overline vec"
)
"""Commands that make one symbol with their argument, as `\\vec{v}`."""

_FULL_WIDTH = {chr(code + 0xFEE0): chr(code) for code in range(0x21, 0x7F)}
_UNICODE_TABLE = str.maketrans(_FULL_WIDTH | {"\u3000": " ", "、": ","} | UNICODE)
_BARE = re.compile(
    r"(?<![\\a-zA-Z])(arcsin|arccos|arctan|sinh|cosh|tanh|sqrt|frac|dfrac|infty|infinity|sin|cos|"
    r"tan|cot|sec|csc|ln|log|exp|pi|theta|alpha|cup(?=\s*[(\[\\])|binom)(?![a-zA-Z])"
)
_UPRIGHT_FUNCTION = re.compile(
    rf"\\(?:text|mathrm|textrm)\{{({'|'.join(FUNCTIONS)})\}}(?=\s*(?:\\left\s*)?\()"
)
_FORMULA = re.compile(
    r"[\d.,:+\-*/=()\[\] ]+"  # numbers and signs
    r"|(?=[^+\-*=(!<>,]*[+\-*=(!<>,])(?:[A-Za-z](?![A-Za-z])|[\d.,:+\-*/=()\[\] !^<>])+"
)
"""Text in `\\text{}` that is mathematics: numbers and signs, or single letters next to a sign."""
_COMMAND = re.compile(r"\\(operatorname\*|[a-zA-Z]+)[ ]?")
_ALIGNED = re.compile(
    r"\\begin\{(aligned|align\*?|gathered|split|equation\*?)\}(.*?)\\end\{\1\}", re.S
)
_CASES = re.compile(
    r"(?:\\left\s*\\\{\s*)?\\begin\{(cases|array)\}(?:\{[lcr]\})?((?:(?!\\begin|&).)*?)\\end\{\1\}"
    r"(?:\s*\\right\s*\.)?",
    re.S,
)
"""Environments with one column."""
_UNIT_QUOTIENT = re.compile(
    rf"\\frac\{{{OPEN}([^{CLOSE}]*){CLOSE}\}}\{{{OPEN}([^{CLOSE}]*){CLOSE}(\^\{{?\d\}}?)?\}}$"
)
GROUP = r"(?<group>\{(?:[^{}\\]|\\[\s\S]|(?&group))*+\})"
_PARENTHESES = r"(?<parentheses>\((?:[^()\\]|\\[\s\S]|(?&parentheses))*+\))"
_WITH_ARGUMENTS = regex.compile(
    rf"(?(DEFINE){GROUP}{_PARENTHESES}(?<argument> *(?:(?&group)|\\[a-zA-Z]+|\\.|[^\W_])))"
    r"\\(?:(?<name>frac|binom)(?![a-zA-Z])(?<first>(?&argument))?(?<second>(?&argument))?"
    r"|(?<name>sqrt)(?![a-zA-Z])(?:\s*\[(?<index>[^\[\]]*)\])?"
    r"(?<first>\s*(?&parentheses)|(?&argument))?)"
)
_TRAILING = re.compile(rf"(?:(?<!\.)\.|[\s,;:~{ROW}])+$")


def balanced(text: str) -> bool:
    """Return whether the unescaped braces of a text match."""
    return regex.fullmatch(GROUP, f"{{{text} }}") is not None


@cache
def _commands(names: str) -> Any:
    return regex.compile(rf"\\({names})(?![a-zA-Z])\*? ?{GROUP}")


def replaced(text: str, names: str, make: Callable[[str, str], str]) -> str:
    """Return `text` with `\\name{argument}` replaced by `make(name, argument)`; names: `a|b|c`."""
    before = "" if "\\" in text else text

    def replacement(match: Any) -> str:
        return make(match[1], match[0][match[0].index("{") + 1 : -1])

    while before != text:
        before, text = text, _commands(names).sub(replacement, text)
    return text


def _wordy(command: str, content: str) -> str:
    """Return the content of `\\text{...}`: words between OPEN and CLOSE, formulas unmarked."""
    inner = content.strip()
    if command.startswith(("math", "text")):
        inner = re.sub(r"(?<=[A-Za-z])\s*\\cdot\s*(?=[A-Za-z])", "·", inner)
    inner = re.sub(r"\\mu\s*(?=[A-Za-zΩ]+$)", "µ", inner)
    if inner in FUNCTIONS and command in ("operatorname", "mathop"):
        return f"\\{inner} "
    if inner in ("e", "i", "d") and command.startswith(("math", "operatorname")):
        return f" {inner} "
    if quantity := re.fullmatch(r"([-+]?\d[\d.,]*) *([A-Za-z][^\d=+*]*)", inner):
        return f" {quantity[1]}{OPEN}{quantity[2]}{CLOSE}"
    if not inner or _FORMULA.fullmatch(inner):
        return inner and f" {inner} "
    if "\\" in inner or OPEN in inner or "$" in inner:
        return f" {inner} "
    return f"{OPEN}{inner}{CLOSE}"


def _rows(aligned: re.Match[str]) -> str:
    """Join rows with commas, or with a space before a row that starts with a relation like `=`."""
    rows = [row.replace("&", " ").strip(" ,") for row in aligned[2].replace("\\&", "&").split(ROW)]
    rows = [row for row in rows if row]
    return re.sub(r",\s*(?==|\\(?:approx|le|ge)(?![a-z]))", " ", ", ".join(rows))


def _system(cases: re.Match[str]) -> str:
    """Join rows by `_rows` if all are equations; leave others, such as rows with conditions."""
    rows = [row for row in cases[2].split(ROW) if row.strip()]
    related = all("=" in row for row in rows) and not re.search(r"\b(?:if|when|for)\b", cases[2])
    return _rows(cases) if related else cases[0]


def _bold(_: str, inner: str) -> str:
    """Return a bold word as text, other bold letters as a vector, and anything else unchanged."""
    if not inner.isalpha():
        return inner
    return f"{OPEN}{inner}{CLOSE}" if is_word(inner) else f"\\vec{{{inner}}}"


def _infix(match: re.Match[str]) -> str:
    """Return `a \\over b` as `\\frac{a}{b}`, and `a \\choose b` as `\\binom{a}{b}`."""
    name = "frac" if match[2] == "over" else "binom"
    return f"\\{name}{{{match[1].strip()}}}{{{match[3].strip()}}}"


def _arguments(text: str) -> str:
    """Return `text` with braces around every argument of \\frac, \\binom and \\sqrt."""

    def braced(match: Any) -> str:
        index = "2" if match["index"] is None else match["index"].strip()
        parts = [f"\\{match['name']}", "" if index == "2" else f"[{index}]"]
        for argument in filter(None, match.group("first", "second")):
            bare = argument.lstrip()
            parts.append("{" + _arguments(bare[1:-1] if bare[0] in "{(" else bare) + "}")
        return "".join(parts)

    return _WITH_ARGUMENTS.sub(braced, text)


def tidy(text: str) -> str:
    """Return LaTeX or plain text normalized to the layout that other modules expect."""
    if re.search(r"\\\\[a-zA-Z]", text) and not re.search(r"(?<!\\)(?:\\\\)*\\(?!\\)", text):
        text = text.replace("\\\\", "\\")  # backslashes were escaped
    text = re.sub(r"√\s*(\d+(?:\.\d+)?|[a-zA-Z])", r"\\sqrt{\1}", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
        text = re.sub(f"[{_RAISED}]+", lambda digits: f"^{{{digits[0].translate(_DIGITS)}}}", text)
        text = re.sub(f"[{_LOWERED}]+", lambda digits: f"_{{{digits[0].translate(_DIGITS)}}}", text)
    text = text.translate(_UNICODE_TABLE)
    text = text.replace("**", "^" if "**" in text.strip("* ") else "")
    text = re.sub(r"\\\\(?:\[[\d.]+[a-z]{2}\])?", ROW, text)
    text = _CASES.sub(_system, _ALIGNED.sub(_rows, text))
    text = re.sub(r"(?<!\\)\\\s*$", "", text)
    text = re.sub(r"(?<![\^_])\{\s*([-+])\s*\}", r"\1", text)
    text = replaced(text, "[hv]space|h?phantom", lambda _, __: " ")
    text = re.sub(r"\\(?:left|right)\s*\.(?!\d)", "", text)
    text = re.sub(r"\bUS ?(?=\\\$)", "", text)
    text = text.replace("\\$", f"{OPEN}dollars{CLOSE}").replace("\\%", "%").replace("\\&", "&")
    if text.count("$") == 1:
        text = re.sub(r"\$(?=\s*[\d.])", f"{OPEN}dollars{CLOSE}", text)
    text = text.replace("$", " ")
    text = re.sub(r"\\[()]|\\\[|(?<!\\)\\\](?!\[)", " ", text)
    text = re.sub(r"(?<=\d)(?:,\\!\s*|\\!|\\,|\{,\})(?=\d{3}(?!\d))", "", text)  # thousands
    text = re.sub(
        r"(?<![\d.,] )(?<![\d.,])(\d{1,3})((?: \d{3})+)(?![\d.,/]| [\d/]| ?\\frac)",
        lambda match: match[0].replace(" ", ""),
        text,
    )
    text = re.sub(r"\\[!,;:> ]|~", lambda match: "" if match[0] == "\\!" else " ", text)
    text = replaced(text, "textcircled|textcolor|color|label|tag", lambda _, __: "")
    text = re.sub(r"(\d)\s*\^\{?\s*\\text\{(?:st|nd|rd|th)\}\s*\}?", r"\1", text)
    text = re.sub(r"([<>])=", lambda sign: "\\le " if sign[1] == "<" else "\\ge ", text)
    text = re.sub(r"\\not\s*(?:=|\{=\})|(?<=[a-zA-Z\s])!=", r"\\ne ", text)
    text = re.sub(
        r"(?<![A-Za-z_{\\\d.])(\d+(?:\.\d+)?)[eE]([+-]?\d+)(?![\d._])", r"\1\\cdot 10^{\2}", text
    )
    text = _UPRIGHT_FUNCTION.sub(r"\\\1", text)
    text = replaced(text, _WORDY, _wordy)
    text = _BARE.sub(lambda match: "\\" + {"infinity": "infty"}.get(match[1], match[1]), text)

    def canonical(match: re.Match[str]) -> str:
        name = SYNONYMS.get(match[1], match[1])
        command = f"\\{name}" if name[:1].isalpha() else name
        following = text[match.end() : match.end() + 1]
        return command + (" " if name[-1:].isalpha() and following.isalpha() else "")

    for _ in range(2):
        text = _COMMAND.sub(canonical, text)
    text = replaced(text, "mathbf", _bold)
    text = re.sub(r"\^\{\\circ\}|\^\\circ|(?<=\d)\^\{?o\}?$", f"{OPEN}degrees{CLOSE}", text)
    text = re.sub(rf"{OPEN}degrees{CLOSE}\s*([CF])(?![a-zA-Z])", f"{OPEN}degrees \\1{CLOSE}", text)
    text = re.sub(r"\{([^{}]*)\\(over|choose)(?![a-z])([^{}]*)\}", _infix, text)
    text = re.sub(r"^([^{}]*)\\(over|choose)(?![a-z])([^{}]*)$", _infix, text)
    text = re.sub(
        rf"(?<=\d)\s*{OPEN}?([mkMG]?){CLOSE}?\s*\\Omega(?![a-zA-Z])", rf"{OPEN}\1Ω{CLOSE}", text
    )
    text = re.sub(
        rf"(?<=\d)[\s{OPEN}{CLOSE}]*\\mu\s*{OPEN}(\w+){CLOSE}", rf"{OPEN}µ\1{CLOSE}", text
    )
    text = _UNIT_QUOTIENT.sub(rf"{OPEN}\1{CLOSE}/{OPEN}\2{CLOSE}\3", _arguments(text))
    text = re.sub(r"([_^])\s*(\w)", r"\1{\2}", text)
    text = re.sub(
        rf"\(?\s*(?:\\[bp]?mod|{OPEN}mod{CLOSE}|(?<=\()mod(?=\s))\s*\{{?\s*(\w+)\s*\}}?\s*\)?",
        r"\\pmod{\1}",
        text,
    )
    text = re.sub(r"\{\s*([a-zA-Z0-9])\s*\}", r"{\1}", text)
    text = re.sub(r"\s+", " ", text).strip().removeprefix("\\therefore").lstrip()
    previous = ""
    while previous != text:
        previous = text
        text = _TRAILING.sub("", text).strip()
        if text[:1] == "{" and regex.fullmatch(GROUP, text):
            text = text[1:-1].strip()
    return text


def is_word(run: str) -> bool:
    """Return whether a run of letters is a word rather than a product of symbols."""
    return run.lower() in SHORT_WORDS or (len(run) > 3 and bool(set(run.lower()) & set("eiou")))


def flat(text: str) -> str:
    """Return normalized LaTeX for comparison as text: with spaces only between numbers and after
    commands, and without braces around a single index or exponent."""
    text = text.replace(OPEN, "").replace(CLOSE, "")
    text = re.sub(r"(?<=\d)\s+(?=[\d.])", "\x01", text)
    text = re.sub(r"(\\[a-zA-Z]+)\s+(?![a-zA-Z])|\s+", lambda match: match[1] or "\x00", text)
    text = re.sub(r"(?<=\\)([a-zA-Z]+)\x00(?=[a-zA-Z])", "\\1\x01", text).replace("\x00", "")
    return re.sub(r"(?<=[\^_])\{(\w)\}", r"\1", text).replace("\x01", " ")
