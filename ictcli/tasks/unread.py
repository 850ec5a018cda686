"""What of a question the model's tokenizer cannot hold: problems left out for it, and notes."""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ictcli.engine import Engine
from ictcli.errors import UserError
from ictcli.recipe.data import PromptSettings
from ictcli.tasks.custom import MOST_LOST
from ictcli.tasks.prompts import batched_ids, fitted, render
from ictcli.tasks.task import Domain, Task, filtered
from ictcli.text import folded, middle_cut
from ictcli.types import Problem

CHECKED = 2000
"""Prompts of a data set whose characters are looked at, at most."""
SHOWN, LONGEST = 5, 30
"""Words of such prompts that a note shows, and characters of each, at most."""
METASPACE = "\u2581"
"""A space, as some tokenizers write it."""


def read_back(tokenizer: Any, texts: Sequence[str]) -> Iterator[str | None]:
    """What the model reads of each text of which its tokenizer cannot hold every character; else
    None.

    That is decode(encode(text)). Tokenizers may change case, white space, invisible characters and
    the compatible forms of a character (NFKC): such a change is no loss."""
    unknown: str | None = getattr(tokenizer, "unk_token", None)
    for text, ids in zip(texts, batched_ids(tokenizer, texts), strict=True):
        read: str = tokenizer.decode(ids, clean_up_tokenization_spaces=False)
        if unknown and unknown not in text:
            read = read.replace(unknown, "")
        lossy = read != text and _characters(text) - _characters(read)
        yield read if lossy else None


def _characters(text: str) -> Counter[str]:
    """How often each visible character occurs, in a form that normalising does not change."""
    same = folded(text)
    if same.isascii():
        return Counter(filter(str.isprintable, "".join(same.split())))
    shown = (each for each in same if not each.isspace() and each != METASPACE)
    return Counter(each for each in shown if unicodedata.category(each) not in ("Cc", "Cf"))


def usable(engine: Engine, task: Task, heldout: int) -> Task:
    """The task without problems that the model cannot read (`without_unread`) or that are too long
    (`fitted`)."""
    return fitted(engine, without_unread(engine, task, heldout), heldout)


def without_unread(engine: Engine, task: Task, heldout: int) -> Task:
    """The task without questions of which the tokenizer loses characters, and with notes of their
    number among the training problems and the first `heldout` held-out ones. UserError where more
    than `MOST_LOST` of either are lost."""
    tokenizer, (_, examined) = engine.tokenizer, task.exam
    lost: set[str] = set()
    left_out, notes = dict[str, int](), list[str]()
    parts = (
        ("unread", task.train or task.finite, task.domain, ""),
        ("heldout_unread", task.heldout(heldout), examined, "held-out "),
    )
    for name, problems, domain, kind in parts:
        found = lost_of(tokenizer, dict.fromkeys(problem.prompt for problem in problems))
        out = sum(problem.prompt in found for problem in problems)
        if not out:
            continue
        words = _words(found.items(), domain)
        sentence = f"The model's tokenizer loses characters of {out:,} of {len(problems):,} {kind}"
        if out > MOST_LOST * len(problems):
            raise UserError(
                f"{sentence}questions{words}. Nothing is learned from what the model cannot read.",
                "take a model that reads such text, or other data; a tenth may be left out",
            )
        lost.update(found)
        left_out[name] = out
        notes.append(f"{sentence}questions{words}. They are left out.")
    if not lost:
        return task
    return filtered(task, lambda problem, _: problem.prompt not in lost, notes, left_out)


def lost_of(tokenizer: Any, questions: Collection[str]) -> dict[str, str]:
    """What is read of those questions of which characters are lost. A word that is read alone is
    taken to be read in each question, so that most need not be looked at."""
    words = list({word for question in questions for word in question.split()})
    read = read_back(tokenizer, [f" {word}" for word in words])
    doubtful = {word for word, text in zip(words, read, strict=True) if text is not None}
    suspects = [q for q in questions if doubtful and not doubtful.isdisjoint(q.split())]
    found = zip(suspects, read_back(tokenizer, suspects), strict=True)
    return {question: text for question, text in found if text is not None}


def _words(lost: Iterable[tuple[str, str]], domain: Domain) -> str:
    """Some of the words that are lost, by the texts and what is read of them."""
    words: dict[str, None] = {}
    for text, read in lost:
        words |= dict.fromkeys(Counter(text.split()) - Counter(read.split()))
        if len(words) > SHOWN:
            break
    shown = ", ".join(f'"{middle_cut(word, LONGEST)}"' for word in islice(words, SHOWN))
    return "" if domain.private else f": of {shown}{', ...' * (len(words) > SHOWN)}"


def unread_notes(
    engine: Engine, problems: Sequence[Problem], domain: Domain, settings: PromptSettings
) -> list[str]:
    """A note if the tokenizer loses characters of some of the prompts, the first `CHECKED` of which
    are looked at."""
    tokenizer, checked = engine.tokenizer, problems[:CHECKED]
    texts = [render(tokenizer, problem, domain, settings) for problem in checked]
    read = zip(texts, read_back(tokenizer, texts), strict=True)
    lost = [(text, back) for text, back in read if back is not None]
    if not lost:
        return []
    words = {word for text, back in lost for word in Counter(text.split()) - Counter(back.split())}
    suffix = set((domain.suffix if settings.suffix is None else settings.suffix).split())
    advice = "Take a model that reads such text, or leave these problems out."
    if 2 * len(words & suffix) > len(suffix):
        advice = "Most are of the line after each question: prompt.suffix= leaves it out."
    return [
        f"The model's tokenizer loses characters of {len(lost):,} of {len(checked):,} "
        f"prompts{_words(lost, domain)}. {advice}"
    ]
