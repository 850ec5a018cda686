"""What the base model of the task `chain` is taught: solutions and their tokens."""

import random

from transformers import Qwen2Tokenizer

from ictcli.tasks.chain.problem import value

VOCABULARY = ("<pad>", "<unk>", *"0123456789", *"+-*=;#")
"""Every token, in the order of its id."""
PAD_ID, EOS_ID = VOCABULARY.index("<pad>"), VOCABULARY.index("#")


def apply(expression: str, index: int) -> str:
    """Rewrite an expression by computing operator number `index` (from 0) in place. Precedence is
    ignored: that is what makes the choice of operator matter."""
    start = 2 * index
    return expression[:start] + str(value(expression[start : start + 3])) + expression[start + 3 :]


def solution(expression: str, rng: random.Random, right: float) -> str:
    """Write a response whose arithmetic is correct and whose choices are right by chance.

    At each step with two operators or more it applies with probability `right` the one that keeps
    the value (the leftmost `*`, else the leftmost), otherwise the first, or the last where that is
    right: it reads from left to right, as if `*` did not bind tighter. The wrong one may still keep
    the value, so the share of correct responses exceeds `right ** choices`.
    """
    lines: list[str] = []
    while len(expression) > 1:
        index = max(expression.find("*") // 2, 0)
        operators = len(expression) // 2
        if operators > 1 and rng.random() >= right:
            index = 0 if index else operators - 1
        expression = apply(expression, index)
        lines.append(expression)
    return ";".join(lines) + "#"


def is_sound(prompt: str, response: str) -> bool:
    """Whether every line applies one operator of the line before, down to `digit#`.

    A sound response may have chosen wrong operators. One that is not sound has a slip of
    arithmetic or copying, or no proper end.
    """
    current = prompt.removesuffix("=")
    for line in response.removesuffix("#").split(";"):
        if line not in {apply(current, index) for index in range(len(current) // 2)}:
            return False
        current = line
    return response.endswith("#") and len(current) == 1


def make_tokenizer() -> Qwen2Tokenizer:
    """One token per character: byte-pair encoding without merges. Other characters are dropped.

    It has the class that transformers gives every model of type qwen2, whatever the folder
    names, so that what is loaded is what was saved.

    `#` ends a response but is no special token here: it is the end token in the model's
    config and generation config only. transformers makes every token that a tokenizer names
    (`eos_token` too) special when it loads it, and `decode(..., skip_special_tokens=True)`
    would drop the `#` that the verifier looks for. An `eos_token` of None has to be said:
    the class would otherwise add one beyond the vocabulary of the model.
    """
    return Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate(VOCABULARY)},
        merges=[],
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token=None,  # pyright: ignore[reportArgumentType]
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
