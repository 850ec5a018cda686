"""From a problem to the tokens a model is given, and back from tokens to text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.settings import QUESTION, TEMPLATES, PromptSettings
from ictcli.tasks import Domain
from ictcli.types import Problem, Rollouts

Template = Literal["chat", "none", "own"]


def template_of(tokenizer: Any, domain: Domain, settings: PromptSettings) -> Template:
    """What is put around a question: the tokenizer's chat template, nothing, or the user's text.
    UserError where the tokenizer has no chat template and one is asked for."""
    if settings.template not in TEMPLATES:
        return "own"
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if settings.template == "chat" and not has_template:
        raise UserError(
            "The model's tokenizer has no chat template.",
            "prompt.template=none leaves it out (ictcli eval: --template none)",
        )
    return "none" if settings.template == "none" or not (has_template and domain.words) else "chat"


def render(
    tokenizer: Any, problem: Problem, domain: Domain, settings: PromptSettings
) -> tuple[str, bool]:
    """The prompt as text: question, suffix, and the template where one is used; and whether the
    tokenizer should still add its special tokens (a chat template brings its own)."""
    template = template_of(tokenizer, domain, settings)
    default = "" if template == "own" else domain.suffix
    suffix = default if settings.suffix is None else settings.suffix
    text = f"{problem.prompt}\n{suffix}" if suffix else problem.prompt
    if template != "chat":
        if template == "own":
            text = settings.template.replace(QUESTION, text)
        text = f"{settings.system}\n{text}" if settings.system else text
        first = getattr(tokenizer, "bos_token", None)
        return text, template == "none" or not (first and text.startswith(first))
    messages = [{"role": "user", "content": text}]
    if settings.system:
        messages.insert(0, {"role": "system", "content": settings.system})
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    return text, False


def encode(
    engine: Engine,
    problems: Sequence[Problem],
    domain: Domain,
    settings: PromptSettings,
    max_tokens: int,
) -> list[list[int]]:
    """Token ids a problem. Raises UserError where prompt + max_tokens exceeds the context."""
    ids: list[list[int]] = []
    for problem in problems:
        text, special = render(engine.tokenizer, problem, domain, settings)
        tokens = engine.tokenizer(text, add_special_tokens=special)["input_ids"]
        if not tokens:
            raise UserError(f"The prompt of problem {problem.id} is empty.", "check the data")
        left = engine.context - len(tokens)
        if left < 1:
            raise UserError(
                f"The prompt of problem {problem.id} takes {len(tokens)} tokens, which leaves no "
                f"room in the model's context of {engine.context}.",
                "leave that problem out, or take a model with a longer context",
            )
        if max_tokens > left:
            raise UserError(
                f"The prompt of problem {problem.id} takes {len(tokens)} tokens, which with "
                f"max_tokens = {max_tokens} exceeds the model's context of {engine.context}.",
                f"max_tokens={left} (ictcli eval: --max-tokens {left}), or shorter prompts",
            )
        ids.append(list(tokens))
    return ids


def decode(tokenizer: Any, rollouts: Rollouts) -> list[str]:
    """(B,) responses as text, special tokens left out."""
    rows = [rollouts.tokens[row, : rollouts.lengths[row]].tolist() for row in range(len(rollouts))]
    return tokenizer.batch_decode(
        rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
