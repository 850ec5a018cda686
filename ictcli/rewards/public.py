"""The verifier `math-verify`: what the library of that name takes for equal. Public figures and
other trainers' rewards are judged by it, with its own reading of response and gold."""

import logging
import re
from typing import Any

import math_verify as library  # pyright: ignore[reportMissingTypeStubs]

from ictcli.rewards.verifiers import Verdict

logging.getLogger("math_verify").setLevel(logging.CRITICAL)
_MARKED = re.compile(r"\\boxed|(?<!\\)\$")
_library: Any = library  # its types do not know that a time limit may be none


def math_verify(response: str, gold: str) -> Verdict:
    """Return the library's verdict. A gold without a box or dollar signs is read as in a box."""
    marked = gold if _MARKED.search(gold) else f"\\boxed{{{gold}}}"
    right, answer = (_library.parse(text, parsing_timeout=None) for text in (marked, response))
    if not right or not answer:
        return Verdict("unparsed", "", f"math-verify reads no {'answer' if right else 'gold'}")
    same = _library.verify(right, answer, timeout_seconds=None)
    return Verdict("correct" if same else "wrong", str(answer[-1])[:200])
