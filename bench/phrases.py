"""CPU time to judge responses made of one repeated phrase, by every verifier of ictcli.

`python bench/phrases.py [--size 2000] [--triples 1.0]`: every phrase of two and three of `WORDS`
(`--triples`: this share of those of three), repeated to the size and cut anywhere, as a response,
after and in a box; and at the longest that `math` parses, as an answer and as a gold. Prints the
slowest of each kind, and exits with 1 if one took a second or more.
"""

import argparse
import random
import sys
import time
from collections.abc import Callable, Iterator
from itertools import product

from ictcli.rewards import VERIFIERS
from ictcli.rewards.answers import located
from ictcli.rewards.maths.compare import LONGEST, describe, listed, readable
from ictcli.rewards.maths.copies import without_asked
from ictcli.rewards.said import said

WORDS = [
    *("So ", "A. ", "(B) ", "the answer ", "is ", "option ", "correct ", "not ", "or ", "most "),
    *("\n", ": ", "<s>", "12 m ", "\\boxed{", "}", "1", "x", "=", "^", "(", "{", ",", "\\frac{"),
    *("\\text{", "-", "\\approx ", "!", "|", "per "),
]
CHOICES = ("10 m", "12 m", "15 m", "$x^2$")
SECONDS = 1.0


def of_choice(text: str) -> None:
    seen = said(text)
    VERIFIERS["choice"].judge(seen, "A", CHOICES, located(seen))


def of_kind(kind: str, gold: str) -> Callable[[str], None]:
    def judge(text: str) -> None:
        found = located(text, gold, listed)
        VERIFIERS[kind].judge(without_asked(found.answer or text, gold, ""), gold)

    return judge


def as_gold(text: str) -> None:
    readable(text[:LONGEST])
    describe(text[:LONGEST])


KINDS: dict[str, tuple[str, Callable[[str], None]]] = {
    "choice": ("*", of_choice),
    "choice after a box": ("\\boxed{B} *", of_choice),
    "choice in a box": ("The answer is \\boxed{*}", of_choice),
    "chain": ("*", of_kind("chain", "7")),
    "text in a box": ("\\boxed{*}", of_kind("text", "seven")),
    "integer in a box": ("\\boxed{*}", of_kind("integer", "7")),
    "math in a box": ("\\boxed{*}", of_kind("math", "x+7")),
    "math, 800 characters": ("", of_kind("math", "x+7")),
    "gold": ("", as_gold),
}


def phrases(share: float, dice: random.Random) -> Iterator[str]:
    for count in (2, 3):
        for words in product(WORDS, repeat=count):
            if count == 2 or dice.random() < share:
                yield "".join(words)


def texts(phrase: str, size: int, dice: random.Random) -> Iterator[tuple[str, str]]:
    """Each kind with its text."""
    for kind, (around, _) in KINDS.items():
        length = size - len(around) + 1 if around else LONGEST
        start = dice.randrange(len(phrase))
        cut = (phrase * (length // len(phrase) + 2))[start : start + length]
        yield kind, around.replace("*", cut) or cut


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=2000)
    parser.add_argument("--triples", type=float, default=1.0)
    options = parser.parse_args()
    dice, count = random.Random(0), 0
    slowest: dict[str, tuple[float, str]] = dict.fromkeys(KINDS, (0.0, ""))
    for phrase in phrases(options.triples, dice):
        count += 1
        for kind, text in texts(phrase, options.size, dice):
            started = time.process_time()
            KINDS[kind][1](text)
            slowest[kind] = max(slowest[kind], (time.process_time() - started, phrase))
        if sys.stderr.isatty():
            print(f"\r{count}", end="", file=sys.stderr)
    print(f"{count:,} phrases of {len(WORDS)} words, texts of {options.size:,} characters")
    for kind, (seconds, phrase) in slowest.items():
        print(f"{seconds:7.3f} s  {kind:22} {phrase!r}")
    return int(max(slowest.values())[0] >= SECONDS)


if __name__ == "__main__":
    sys.exit(main())
