"""Leaving out problems that are too long for a model, or in which its tokenizer loses
characters."""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.recipe import Recipe
from ictcli.recipe.data import PromptSettings
from ictcli.tasks.custom import MOST_LOST
from ictcli.tasks.prompts import all_tokens, batched_ids, render
from ictcli.tasks.sft import in_form, own_examples, response_ids
from ictcli.tasks.task import Domain, Task
from ictcli.text import folded, middle_cut
from ictcli.types import Problem

CHECKED = 2000
"""Number of prompts of a data set that are checked for lost characters."""
SHOWN, LONGEST = 5, 30
"""Limits of a note: words with lost characters, and characters of each word."""
METASPACE = "\u2581"
"""A space, as some tokenizers write it."""


def lost_of(tokenizer: Any, texts: Sequence[str]) -> list[tuple[str, str]]:
    """Return the texts in which the tokenizer loses characters, each with decode(encode(text)).

    Tokenizers may change case, white space, invisible characters and the compatible forms of a
    character (NFKC): such a change is not a loss."""
    unknown: str | None = getattr(tokenizer, "unk_token", None)
    lost: list[tuple[str, str]] = []
    for text, ids in zip(texts, batched_ids(tokenizer, texts), strict=True):
        read: str = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        if unknown and unknown not in text:
            read = read.replace(unknown, "")
        if read != text and _characters(text) - _characters(read):
            lost.append((text, read))
    return lost


def _characters(text: str) -> Counter[str]:
    """Count the visible characters of a text, case-folded and NFKC-normalised."""
    same = folded(text)
    if same.isascii():
        return Counter(filter(str.isprintable, "".join(same.split())))
    shown = (c for c in same if not c.isspace() and c != METASPACE)
    return Counter(c for c in shown if unicodedata.category(c) not in ("Cc", "Cf"))


def usable(engine: Engine, task: Task, recipe: Recipe) -> Task:
    """Return the task without questions in which the tokenizer loses characters, without prompts
    longer than `prompt.max_tokens`, and without examples of `sft.data` that do not fit
    (`fitted_examples`). Notes give the numbers left out. UserError if more than `MOST_LOST` of the
    questions lose characters, or if no problem is left to train on."""
    drawn = task.held or tuple(task.heldout(recipe.eval.skip + recipe.eval.problems))
    left_out, notes = dict(task.left_out), list(task.notes)
    kept: list[tuple[Problem, ...]] = []
    for problems, domain, kind in (
        (task.train, task.domain, ""),
        (drawn, task.exam[1], "held-out "),
    ):
        short, note = readable(engine.tokenizer, problems, domain, kind)
        notes += note
        if note:
            left_out["heldout_unread" if kind else "unread"] = len(problems) - len(short)
        read = len(short)
        if most := task.prompt.max_tokens:
            prompts = all_tokens(engine.tokenizer, short, domain, task.prompt)
            sizes = zip(short, map(len, prompts), strict=True)
            short = tuple(problem for problem, size in sizes if size <= most)
        if out := read - len(short):
            left_out["heldout_too_long" if kind else "too_long"] = out
            notes.append(
                f"{out:,} of {read:,} {kind}problems left out: prompts longer than {most} tokens."
            )
        kept.append(short)
    train, held = kept[0], kept[1] if len(kept[1]) < len(drawn) else task.held
    if task.train and not train:
        raise UserError(
            f"Every prompt of {task.name} is longer than prompt.max_tokens = "
            f"{task.prompt.max_tokens}.",
            "raise prompt.max_tokens, or use fewer examples in the prompt",
        )
    notes += unread_notes(engine, train, task.domain, task.prompt)
    if task.examined or not train:
        notes += unread_notes(engine, held or drawn, task.exam[1], task.prompt)
    task = replace(task, train=train, held=held, notes=tuple(notes), left_out=left_out)
    return fitted_examples(engine, task, recipe.max_tokens)


def readable(
    tokenizer: Any, problems: tuple[Problem, ...], domain: Domain, kind: str
) -> tuple[tuple[Problem, ...], list[str]]:
    """Return the problems whose questions lose no characters, and a note on the others. Questions
    after the first `CHECKED` are checked only if one of the first loses characters. UserError if
    more than `MOST_LOST` of the questions lose characters."""
    questions = [problem.prompt for problem in problems]
    lost = lost_of(tokenizer, questions[:CHECKED])
    lost += lost_of(tokenizer, questions[CHECKED:]) if lost else []
    if not lost:
        return problems, []
    note = (
        f"The model's tokenizer loses characters in {len(lost):,} of {len(problems):,} {kind}"
        f"questions{_words(lost, domain)}."
    )
    if len(lost) > MOST_LOST * len(problems):
        raise UserError(
            f"{note} A model learns nothing from text that it cannot read.",
            "use a model that reads such text, or other data; at most a tenth may be left out",
        )
    texts = dict(lost)
    kept = tuple(problem for problem in problems if problem.prompt not in texts)
    return kept, [f"{note} They are left out."]


def fitted_examples(engine: Engine, task: Task, max_tokens: int) -> Task:
    """Return the task without examples in which the tokenizer loses characters, or whose response
    is longer than `max_tokens` or than the context allows. A note gives their number. UserError if
    they are more than `MOST_LOST` of the examples."""
    if not task.sft:
        return task
    prompts = all_tokens(engine.tokenizer, task.sft, task.domain, task.prompt)
    responses = response_ids(engine, task.sft, task.domain, task.prompt)
    lost = dict(lost_of(engine.tokenizer, [x for e in task.sft for x in (e.prompt, e.solution)]))
    kept: list[Problem] = []
    longest = 0
    for example, prompt, response in zip(task.sft, prompts, responses, strict=True):
        engine.check_tokens(prompt, response)
        longest = max(longest, len(response))
        fits = len(response) <= min(max_tokens, engine.context - len(prompt))
        if fits and prompt and not {example.prompt, example.solution} & lost.keys():
            kept.append(example)
    out = len(task.sft) - len(kept)
    if not out:
        return task
    why = f"they exceed max_tokens = {max_tokens} or the context"
    why = f"the tokenizer loses characters in them, or {why}" if lost else why
    words = f"{out:,} of {len(task.sft):,} examples of sft.data do not fit: {why}."
    if out > MOST_LOST * len(task.sft):
        raise UserError(
            f"{words} At most a tenth may be left out.",
            f"max_tokens={longest}, shorter responses, or a model that reads such text",
        )
    return replace(task, sft=tuple(kept), notes=(*task.notes, f"{words} They are left out."))


def _words(lost: Iterable[tuple[str, str]], domain: Domain) -> str:
    """Return some of the words that have lost characters, as a part of a sentence."""
    counts = (Counter(text.split()) - Counter(read.split()) for text, read in lost)
    words = list(dict.fromkeys(word for count in counts for word in count))
    shown = ", ".join(f'"{middle_cut(word, LONGEST)}"' for word in words[:SHOWN])
    return "" if domain.private else f", for example in {shown}{', ...' * (len(words) > SHOWN)}"


def unread_notes(
    engine: Engine, problems: Sequence[Problem], domain: Domain, settings: PromptSettings
) -> list[str]:
    """Return a note if the tokenizer loses characters in any of the first `CHECKED` prompts."""
    tokenizer, checked = engine.tokenizer, problems[:CHECKED]
    texts = [render(tokenizer, problem, domain, settings) for problem in checked]
    lost = lost_of(tokenizer, texts)
    if not lost:
        return []
    return [
        f"The model's tokenizer loses characters in {len(lost):,} of {len(checked):,} "
        f"prompts{_words(lost, domain)}. Use a model that reads such text, or leave these "
        "problems out; prompt.suffix= leaves out the line after each question."
    ]


def can_be_examples(engine: Engine, task: Task, recipe: Recipe) -> bool:
    """Return whether training accepts `sft.data=task`: the verifier reads the task's solutions or
    golds as right answers, and the model has room for them."""
    examples = own_examples(task, recipe.seed, recipe.sft.steps * recipe.sft.batch)
    taught = replace(task, sft=in_form(examples, task.domain))
    try:
        return bool(fitted_examples(engine, taught, recipe.max_tokens).sft)
    except UserError:
        return False
