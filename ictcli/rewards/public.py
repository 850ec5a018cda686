"""The verifier `math-verify`, used for published results and by other trainers: the library of that
name parses the response and the gold, and compares them."""

import logging
import re
from typing import Any

import math_verify as library  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.verifiers import Verdict

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
_MARKED = re.compile(r"\\boxed|(?<!\\)\$")
_library: Any = library  # its type hints do not allow a time limit of None


def math_verify(response: str, gold: str) -> Verdict:
    """Return the library's verdict. A gold without a box or dollar signs is put in a box first."""
    marked = gold if _MARKED.search(gold) else f"\\boxed{{{gold}}}"
    right, answer = (_library.parse(text, parsing_timeout=None) for text in (marked, response))
    if not right or not answer:
        return Verdict("unparsed", "", f"math-verify finds no {'answer' if right else 'gold'}")
    same = _library.verify(right, answer, timeout_seconds=None)
    return Verdict("correct" if same else "wrong", str(answer[-1])[:200])
