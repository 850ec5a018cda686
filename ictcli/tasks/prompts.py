"""Turning problems into prompt tokens, and response tokens into text."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.recipe.data import QUESTION, TEMPLATES, PromptSettings
from ictcli.tasks.chats import as_messages, rendered
from ictcli.tasks.task import Domain
from ictcli.types import Problem, Rollouts, Turn

Template = Literal["chat", "none", "own"]
BATCH = 1000
"""Number of texts per call of the tokenizer."""
PROBE = 16
"""Number of characters tokenized to find the special tokens that are put before a text."""


def template_of(tokenizer: Any, domain: Domain, settings: PromptSettings) -> Template:
    """Return the kind of template for questions: the tokenizer's (chat), none, or the user's (own).
    UserError if a chat template is required or given arguments, but none is used."""
    has_template = bool(getattr(tokenizer, "chat_template", None))
    if settings.template == "chat" and not has_template:
        raise UserError(
            "The model's tokenizer has no chat template.", "prompt.template=none prompts without it"
        )
    own, without = settings.template not in TEMPLATES, settings.template == "none"
    if not own and not without and has_template and domain.words:
        return "chat"
    if settings.template_arguments:
        key = "prompt.template_args" if settings.thinking is None else "prompt.thinking"
        why = "these prompts do not use it" if has_template else "the model has none"
        raise UserError(
            f"{key} is an argument of the chat template, and {why}.", f"leave {key} out"
        )
    return "own" if own else "none"


def render(
    tokenizer: Any,
    problem: Problem,
    domain: Domain,
    settings: PromptSettings,
    response: str | None = None,
) -> str:
    """Return the prompt as text: the examples and the question, each with the domain's suffix, in
    the template.

    In a chat template, each example is a user turn and an assistant turn, and the messages of a
    conversation are turns. Without a chat template, each example is plain text followed by an empty
    line. The system message is `settings.system` or else the conversation's. A beginning-of-text
    token in any text is moved to the front; with a chat template, which writes its own, it is
    removed. A `response` (only with a chat template) is added as the assistant's last turn, with
    the end of that turn."""
    template = template_of(tokenizer, domain, settings)
    default = "" if template == "own" else domain.suffix
    suffix = default if settings.suffix is None else settings.suffix
    bos: str = getattr(tokenizer, "bos_token", None) or ""
    question_template = settings.template if template == "own" else QUESTION
    asked = [*(example.prompt for example in settings.examples), problem.prompt]
    has_bos = any(text.startswith(bos) for text in (question_template, *asked))
    if template == "chat" and problem.turns:
        asked[-1] = problem.turns[-1][1]
    questions = [question.removeprefix(bos) for question in asked]
    questions = [f"{question}\n{suffix}" if suffix else question for question in questions]
    answers = [example.response for example in settings.examples]
    said = "\n".join(text for role, text in problem.turns if role == "system")
    system = settings.system or said
    if template != "chat":
        text = _as_text(questions, answers, question_template.removeprefix(bos))
        text = f"{system}\n{text}" if system else text
        return f"{bos}{text}" if has_bos else text
    turns: list[Turn] = [("system", system)] if system else []
    for question, answer in zip(questions, answers, strict=False):
        turns += [("user", question), ("assistant", answer)]
    turns += [turn for turn in problem.turns[:-1] if turn[0] != "system"]
    turns.append(("user", questions[-1]))
    turns += [("assistant", response)] if response is not None else []
    arguments = settings.template_arguments
    return rendered(tokenizer, as_messages(turns), arguments, answered=response is not None)


def _as_text(questions: Sequence[str], answers: Sequence[str], template: str) -> str:
    pieces = [template.replace(QUESTION, question) for question in questions]
    for number, answer in enumerate(answers):
        gap = "\n" if template == QUESTION else "" if pieces[number][-1:].isspace() else " "
        pieces[number] += f"{gap}{answer}\n\n"
    return "".join(pieces)


def tokens_of(
    tokenizer: Any, problem: Problem, domain: Domain, settings: PromptSettings
) -> tuple[str, list[int]]:
    """Return the prompt as text, and its token ids.

    A chat template writes all special tokens. Any other prompt begins with the special tokens that
    the tokenizer puts before a text, unless the text begins with them already. Tokens that the
    tokenizer puts after a text are left out, since the response follows."""
    text = render(tokenizer, problem, domain, settings)
    chat = template_of(tokenizer, domain, settings) == "chat"
    return text, next(_tokens(tokenizer, [text], chat=chat))


def _tokens(tokenizer: Any, texts: Sequence[str], *, chat: bool) -> Iterator[list[int]]:
    prefixes: dict[str, list[int]] = {}

    def before(start: str) -> list[int]:
        """Return the token ids that the tokenizer puts before a text with this beginning."""
        plain, whole = (
            list(tokenizer(start, add_special_tokens=special)["input_ids"])
            for special in (False, True)
        )
        starts = [i for i in range(len(whole)) if whole[i : i + len(plain)] == plain]
        return whole[: starts[0]] if starts else []

    for text, ids in zip(texts, batched_ids(tokenizer, texts), strict=True):
        if chat:
            yield ids
            continue
        start = text.lstrip()[:PROBE]
        if start not in prefixes:
            prefixes[start] = before(start)
        added = prefixes[start]
        yield ids if ids[:1] == added[:1] else added + ids


def batched_ids(tokenizer: Any, texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the token ids of each text, without special tokens, `BATCH` texts per tokenizer
    call."""
    for first in range(0, len(texts), BATCH):
        batch = list(texts[first : first + BATCH])
        yield from map(list, tokenizer(batch, add_special_tokens=False)["input_ids"])


def all_tokens(
    tokenizer: Any, problems: Sequence[Problem], domain: Domain, settings: PromptSettings
) -> Iterator[list[int]]:
    """Yield the token ids of each prompt; see `tokens_of`."""
    chat = template_of(tokenizer, domain, settings) == "chat"
    for first in range(0, len(problems), BATCH):
        part = problems[first : first + BATCH]
        texts = [render(tokenizer, problem, domain, settings) for problem in part]
        yield from _tokens(tokenizer, texts, chat=chat)


class TooLongError(UserError):
    """A prompt fills the model's context."""


def encode(
    engine: Engine,
    problems: Sequence[Problem],
    domain: Domain,
    settings: PromptSettings,
    max_tokens: int,
) -> list[list[int]]:
    """Return the prompt's token ids per problem. UserError if a prompt has no tokens, or if its
    tokens and `max_tokens` together exceed the context."""
    ids = list(all_tokens(engine.tokenizer, problems, domain, settings))
    for problem, tokens in zip(problems, ids, strict=True):
        if not tokens:
            raise UserError(
                f"The model's tokenizer turns the prompt of problem {problem.id} into no tokens.",
                "use a model that reads such text, or other data",
            )
        if len(tokens) >= engine.context:
            raise TooLongError(
                f"The prompt of problem {problem.id} takes {len(tokens)} tokens, which leaves no "
                f"room in the model's context of {engine.context}.",
                "leave that problem out, or use a model with a longer context",
            )
    longest = max(range(len(ids)), key=lambda i: len(ids[i]), default=None)
    if longest is not None and max_tokens > (left := engine.context - len(ids[longest])):
        raise UserError(
            f"The prompt of problem {problems[longest].id} takes {len(ids[longest])} tokens, which "
            f"with max_tokens = {max_tokens} exceeds the model's context of {engine.context}.",
            f"max_tokens={left}, or shorter prompts",
        )
    return ids


def decode(tokenizer: Any, rollouts: Rollouts) -> list[str]:
    """Return B responses as text, without special tokens."""
    rows = [rollouts.tokens[row, : rollouts.lengths[row]].tolist() for row in range(len(rollouts))]
    return tokenizer.batch_decode(
        rows, skip_special_tokens=True, clean_up_tokenization_spaces=False
    )
