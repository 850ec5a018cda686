"""The words of the task `ledger`, and the setting that says which of them a text is made of."""

from dataclasses import dataclass

DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six")

NAMES = (
    "Ada", "Ben", "Clara", "Edith", "Hugo", "Iris", "Jonas", "Lena", "Mira", "Nora", "Otto", "Tom",
)  # fmt: skip
TRADES = {
    "bakes": ("bread", "buns", "cakes", "pies", "rolls", "tarts"),
    "mends": ("boots", "chairs", "clocks", "fences", "nets", "sails"),
    "paints": ("boats", "carts", "doors", "gates", "signs", "walls"),
    "picks": ("apples", "beans", "grapes", "nuts", "pears", "plums"),
    "sells": ("figs", "honey", "oil", "salt", "tea", "wool"),
    "sews": ("bags", "coats", "flags", "gloves", "hats", "shirts"),
}
"""What a person does, and to what: the entries of one ledger are of one trade."""

OPENERS = ("Then", "Next", "Later", "Soon")
JOINTS = ("so", "thus", "hence", "now")
_GATES, _EVENINGS = ("old", "tall", "green", "stone"), ("quiet", "warm", "late", "soft")
_SUNS, _BEASTS = ("red", "pale", "low", "round"), ("dogs", "cats", "geese", "goats")
_ENDS, _DOES = ("comes", "falls", "ends", "sinks"), ("sing", "sleep", "play", "wait")
_VIEWS = ("hills", "woods", "roofs", "towers")
PHRASES = (
    (" by the ", _GATES, " gate"),
    (", until the ", _EVENINGS, " evening ", _ENDS),
    (", while the ", _BEASTS, " ", _DOES, " in the square"),
    (", the ", _SUNS, " sun goes down behind the ", _VIEWS),
)
"""Filler: texts, and slots of words that are equally good."""
ECHOES = (", {day} says the book", ", {day} say the bells", ", {day} sing the birds")


@dataclass(frozen=True)
class Setting:
    """What the problems of a kind and their solutions look like."""

    ask: str = ""
    """Last sentence of the prompt, by which the model knows the setting."""
    entries: tuple[int, int] = (2, 6)
    """Number of entries, inclusive: each is one fork."""
    phrases: int = 0
    """Phrases of filler in an entry's line: the more, the rarer the forks."""
    synonyms: int = 4
    """Words that a slot chooses from, all as good: entropy without a decision. 1 = no choice."""
    echoes: int = 0
    """How often a line repeats its day: tokens without a choice that tell rollouts apart."""
    drift: float = 0.0
    """Chance that a line has a word more, behind which rollouts no longer stand side by side."""
    starts: int = 7
    """Days that a response may begin on, all as good."""


SETTINGS = {
    "ledger": Setting(),
    "ledger-easy": Setting(" Tell it in full.", entries=(5, 5), phrases=3),
    "ledger-echo": Setting(" Tell it in full and repeat.", entries=(5, 5), phrases=3, echoes=2),
    "ledger-drift": Setting(" Tell it in full and wander.", entries=(5, 5), phrases=3, drift=0.3),
}
"""By name of the task. The built-in model has seen all of them and no other."""
