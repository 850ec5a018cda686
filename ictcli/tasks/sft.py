"""Examples for supervised training before reinforcement learning: prompts with their responses."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.recipe.data import ColumnSettings, HubSettings, PromptSettings
from ictcli.rows import Row
from ictcli.seeds import seed_of
from ictcli.tasks.custom import GOLDS, Reader, filled, read_each, read_rows, reader_of, said_in
from ictcli.tasks.golds import choices_of
from ictcli.tasks.prompts import all_tokens, batched_ids, render, template_of
from ictcli.tasks.task import Domain, Task
from ictcli.types import Problem, Rollouts

RESPONSES = ("response", "completion", "solution")
"""Usual names of the response's column, for rows whose response is not in a conversation."""
STAND_IN = "\ufffc"
"""Placeholder for a response, to find what a chat template writes after it."""
_NAME = r"[\w:]{0,16}(?:think|thought|reason)\w{0,16}"
TAG = re.compile(rf"[<\[◁](?P<slash>/?){_NAME}[>\]▷]|<channel\|>", re.IGNORECASE)
"""Matches a tag that opens or closes a thought: <think>, </think>, [THINK], ◁think▷."""
LAST_TAG = re.compile(rf"(?P<tag>{TAG.pattern})(?P<space>\s*)$", re.IGNORECASE)
"""Matches a tag at the end of a prompt."""


def read_examples(
    name: str, columns: ColumnSettings, hub: HubSettings, usual: ColumnSettings | None = None
) -> tuple[list[Problem], tuple[str, ...]]:
    """Return the examples of a custom data set, each a problem with its `solution`, and notes.

    Columns are as in `read_custom`. The response is the text of the named column, else of the
    assistant's last message, else of a column in `RESPONSES`, else the gold in a box. Rows without
    a response are left out; if they are more than `MOST_LOST`, UserError for the first of them.
    Also UserError if a named column is missing."""
    try:
        rows = read_rows(name, hub)
        reader = reader_of(name, rows, columns, usual, "response", (*RESPONSES, *GOLDS))
        return read_each(partial(_example, reader), rows)
    except UserError as error:  # its hint names columns.*, here sft.columns.*
        hint = re.sub(r"(?<![\w.])(?:columns|hub)\.", r"sft.\g<0>", error.hint)
        raise UserError(error.message, hint) from error


def _example(reader: Reader, row: Row) -> Problem:
    choices = choices_of(row, reader.choices) if reader.choices else ()
    prompt, turns, response = reader.question(row, choices)
    column = reader.columns.response or filled(row, RESPONSES)
    if column and (response is None or reader.columns.response):
        response = said_in(row, (column,))
    gold = ""
    if response is None:  # then it is the gold in a box
        problem = reader.problem(row)
        gold = problem.gold
        response = problem.solution if gold else ""
    if not response.strip():
        raise UserError(
            f"{row.where} has no response.", "columns.response=NAME names the column of responses"
        )
    turns = turns if len(turns) > 1 else ()
    return Problem(str(row.number), prompt, gold, choices, response, turns)


def own_examples(task: Task, seed: int, n: int) -> list[Problem]:
    """Return at most n problems of the task, with their solutions or else their golds in boxes."""
    rng = Random(seed_of(seed, "examples"))
    problems = task.draw(rng, n) if task.draw else rng.sample(task.train, min(n, len(task.train)))
    box = "The answer is \\boxed{{{}}}."
    return [replace(p, solution=p.solution or box.format(p.gold)) for p in problems if p.gold]


def in_form(examples: Sequence[Problem], domain: Domain) -> tuple[Problem, ...]:
    """Return the examples without their golds. A response that was made from a gold is written in
    the first of these forms that is judged correct: unchanged, the gold, `Answer: GOLD`; if none
    is, the example is left out."""
    responses = {i: example.solution for i, example in enumerate(examples) if not example.gold}
    for form in ("{0.solution}", "{0.gold}", "Answer: {0.gold}"):
        left = [i for i in range(len(examples)) if i not in responses]
        texts = [form.format(examples[i]) for i in left]
        verdicts = domain.judge([examples[i] for i in left], texts)
        judged = zip(left, texts, verdicts, strict=True)
        responses |= {i: text for i, text, verdict in judged if verdict.status == "correct"}
    return tuple(
        replace(examples[i], gold="", choices=(), solution=responses[i]) for i in sorted(responses)
    )


def response_ids(
    engine: Engine, examples: Sequence[Problem], domain: Domain, settings: PromptSettings
) -> Iterator[list[int]]:
    """Yield the token ids of each response up to its stop token: the first one that the chat
    template writes, or else the tokenizer's end of text. Prompt and response are tokenized as one
    text, unless this changes the tokens of the prompt."""
    tokenizer, stops = engine.tokenizer, engine.stop_ids
    eos: int | None = tokenizer.eos_token_id
    end = [eos if eos in stops else stops[0]] if stops else []
    prompts = [render(tokenizer, example, domain, settings) for example in examples]
    texts = [
        _response(tokenizer, example, prompt, domain, settings)
        for example, prompt in zip(examples, prompts, strict=True)
    ]
    prompt_ids = batched_ids(tokenizer, prompts)
    wholes = batched_ids(tokenizer, [*map(str.__add__, prompts, texts)])
    for text, before, whole in zip(texts, prompt_ids, wholes, strict=True):
        joined = whole[: len(before)] == before
        ids = whole[len(before) :] if joined else next(batched_ids(tokenizer, [text]))
        length = next((n for n, token in enumerate(ids, 1) if token in stops), None)
        yield ids[:length] if length else [*ids, *end]


def _response(
    tokenizer: Any, example: Problem, prompt: str, domain: Domain, settings: PromptSettings
) -> str:
    """Return the text to train on after the prompt. Without a chat template, the prompt and the
    response are separated as in the prompt's examples."""
    template, response = template_of(tokenizer, domain, settings), example.solution
    if template == "chat":
        closed = partial(render, tokenizer, example, domain, settings)
        return closed_by(prompt, response, closed)
    separated = prompt[-1:].isspace() or response[:1].isspace() or not domain.words
    return response if separated else f"{' ' if template == 'own' else chr(10)}{response}"


def closed_by(prompt: str, response: str, closed: Callable[[str], str]) -> str:
    """Return what a chat template writes after the prompt if the assistant gives this response.

    `closed` renders the conversation with a response and the end of that turn. If the prompt ends
    with a tag that opens a thought (R1's `<think>`), the response continues that thought, or the
    thought is closed before the response. If the template drops the response's thoughts, they are
    put back."""
    last = LAST_TAG.search(prompt)
    opens = last is not None and last["slash"] == ""
    if last and not opens:  # after an empty thought, drop the response's thought
        response = response.rpartition(last["tag"])[2].lstrip() or response
    text = closed(response).removeprefix(prompt)
    if text == closed(response) or _words(response) not in _words(text):
        _, found, after = closed(STAND_IN).rpartition(STAND_IN)
        if not found:  # the template drops the response
            return response
        text = f"{response}{after}"
    if not last or not opens:
        return text
    tag, closing = last["tag"], f"{last['tag'][0]}/{last['tag'][1:]}"
    if text.lstrip().startswith(tag):
        return text.lstrip().removeprefix(tag).lstrip()
    return text if closing in text else f"\n{closing}\n\n{text.lstrip()}"


def _words(text: str) -> str:
    """Return a text without white space and thought tags, to compare it with others."""
    return "".join(TAG.sub("", text).split())


def given_rollouts(
    engine: Engine, examples: Sequence[Problem], domain: Domain, settings: PromptSettings
) -> Rollouts:
    """Return rollouts whose responses are those of the examples, one per prompt."""
    prompts = tuple(map(tuple, all_tokens(engine.tokenizer, examples, domain, settings)))
    responses = list(response_ids(engine, examples, domain, settings))
    lengths = np.array([*map(len, responses)], dtype=np.int32)
    tokens = np.zeros((len(responses), lengths.max()), dtype=np.int32)
    for row, ids in zip(tokens, responses, strict=True):
        row[: len(ids)] = ids
    ended = np.ones(len(responses), dtype=np.bool_)
    return Rollouts(prompts, 1, tokens, lengths, ended, np.zeros(tokens.shape, dtype=np.float32))
