"""The spellings of LaTeX, as tables: signs, commands that say the same, functions, letters."""

from __future__ import annotations


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNICODE = {
    "−": "-", "–": "-", "—": "-", "×": "\\cdot ", "⋅": "\\cdot ", "·": "\\cdot ", "∗": "*",
    "÷": "/", "≤": "\\le ", "≥": "\\ge ", "≠": "\\ne ", "≈": "\\approx ", "∪": "\\cup ",
    "∩": "\\cap ", "∈": "\\in ", "∞": "\\infty ", "π": "\\pi ", "√": "\\sqrt ", "±": "\\pm ",
    "∓": "\\mp ", "°": "^\\circ ", "²": "^2", "³": "^3", "½": "\\frac{1}{2}",
    "¼": "\\frac{1}{4}", "¾": "\\frac{3}{4}", "⅓": "\\frac{1}{3}", "⅔": "\\frac{2}{3}",
    "∅": "\\emptyset ", "ℝ": "\\mathbb{R}", "θ": "\\theta ", "α": "\\alpha ", "β": "\\beta ",
    "\u00a0": " ", "\u2009": " ", "\u202f": " ", "\u200b": "", "′": "'", "’": "'", "，": ",",
}  # fmt: skip

SYNONYMS = {
    "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "dbinom": "binom", "tbinom": "binom",
    "times": "cdot", "ast": "cdot", "leq": "le", "leqslant": "le", "leqq": "le", "geq": "ge",
    "geqslant": "ge", "geqq": "ge", "neq": "ne", "lt": "<", "gt": ">", "lbrace": "\\{",
    "rbrace": "\\}", "lbrack": "[", "rbrack": "]", "lparen": "(", "rparen": ")", "lvert": "|",
    "rvert": "|", "vert": "|", "mid": "|", "Vert": "\\|", "lVert": "\\|", "rVert": "\\|",
    "varnothing": "emptyset", "lang": "langle", "rang": "rangle", "div": "/", "colon": ":",
    "R": "mathbb{R}", "Z": "mathbb{Z}", "N": "mathbb{N}", "Q": "mathbb{Q}", "land": "wedge",
    "lor": "vee", "approxeq": "approx", "simeq": "approx",
    "ldots": "dots", "cdots": "dots", "dotsc": "dots", "bf": "", "rm": "",
    "degree": "^\\circ", "deg": "deg", "displaystyle": "", "textstyle": "", "scriptstyle": "",
    "limits": "", "nolimits": "", "big": "", "Big": "", "bigg": "", "Bigg": "", "bigl": "",
    "bigr": "", "Bigl": "", "Bigr": "", "biggl": "", "biggr": "", "left": "", "right": "",
    "middle": "", "mleft": "", "mright": "", "quad": " ", "qquad": " ", "enspace": " ",
    "thinspace": " ", "boldsymbol": "mathbf", "bm": "mathbf",
    "hline": "", "notag": "", "nonumber": "", "newline": " ", "cdotp": "cdot", "lnot": "neg",
    "implies": "Rightarrow", "pounds": "£", "euro": "€", "textdollar": "", "dollar": "",
    "percent": "%", "sfrac": "frac", "nicefrac": "frac",
    "varepsilon": "epsilon",     "varphi": "phi", "vartheta": "theta", "bold": "mathbf",
    "Large": "", "large": "", "huge": "",
    "Huge": "", "LARGE": "", "small": "", "cents": "¢", "Bbb": "mathbb",
    "operatorname*": "operatorname",
}  # fmt: skip

WORDY = _words(
    "textbf textit textrm textnormal textsf texttt text mbox hbox mathrm mathsf mathit mathtt "
    "operatorname emph underline fbox boxed mathop ensuremath"
)
"""Commands around words; the longer before those that begin like them."""

FUNCTIONS = _words(
    "arcsin arccos arctan arccot sinh cosh tanh sin cos tan cot sec csc ln log lg exp gcd lcm "
    "max min det"
)

GREEK = _words(
    "alpha phi theta mu xi eta chi tau varphi gamma Lambda varepsilon Psi beta Gamma upsilon "
    "hbar kappa Pi Sigma zeta iota lambda rho omega ell Xi sigma epsilon Delta nu delta psi "
    "Phi Omega Theta vartheta"
)

OPAQUE = _words(
    "angle mathscr widehat arc overrightarrow underline tilde mathbb hat mathcal square "
    "triangle bar overarc mathfrak widetilde overline vec"
)
"""Commands that make one symbol of what they decorate."""

SHORT_WORDS = _words(
    "leo ann and red pm dna blue fri wed aug her tue or man mar eva one odd two sep oct none "
    "win nov neither gas bob sum six ten mon jul rna joe both thu yes ben sea kim amy dan may "
    "sat apr cat new ice all jun tie his dog feb am sun old sam day sky tom max jan even no "
    "dec"
)
"""Of two or three letters that answers consist of, names among them; others are products of
symbols."""
