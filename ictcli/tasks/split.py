"""Tasks and benchmarks over a list of problems, a part of which is held out of training."""

import hashlib
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ictcli.errors import UserError
from ictcli.recipe.data import HOLDOUT
from ictcli.rewards import Verifier, find_verifier
from ictcli.rewards.answers import matched
from ictcli.rows import Rows
from ictcli.tasks.golds import is_sentence, proposed_pattern
from ictcli.tasks.task import BOXED, Benchmark, Domain, Task
from ictcli.text import folded, middle_cut
from ictcli.types import Problem


@dataclass(frozen=True)
class ProblemSet:
    """The problems of a data set."""

    problems: Sequence[Problem]
    rows: Rows
    """The rows that the problems were read from."""
    verifier: str
    """Name of the verifier that fits the golds."""
    lost: int = 0
    """Number of rows left out because they cannot be read."""


def key_of(prompt: str) -> str:
    """Return the SHA-256 of a prompt, ignoring case, white space and compatible characters (NFKC):
    copies of a problem have the same key."""
    return hashlib.sha256(" ".join(folded(prompt).split()).encode("utf-8", "replace")).hexdigest()


def is_heldout(prompt: str, holdout: int = HOLDOUT) -> bool:
    """Return whether a prompt is held out. Its key decides; about one prompt in `holdout` is."""
    return int(key_of(prompt)[:8], 16) % holdout == 0


def digest_of(problems: Sequence[Problem], *, solutions: bool = False) -> str:
    """Return the SHA-256 of the problems, with their solutions only if `solutions` is set."""
    digest = hashlib.sha256()
    for problem in problems:
        more: list[Any] = [part for part in (problem.turns, problem.more_golds) if part]
        more += [problem.solution] * solutions
        line = json.dumps([problem.prompt, problem.gold, list(problem.choices), *more])
        digest.update(line.encode() + b"\n")
    return digest.hexdigest()


def split_task(
    name: str, data: ProblemSet, verify: Verifier | None = None, holdout: int | None = HOLDOUT
) -> Task:
    """Return a task with these problems, of which one in `holdout` is held out (see `is_heldout`;
    None: no problem is). If held-out problems repeat a question, only the first is kept, since
    confidence intervals assume different questions. `verify` replaces the data's verifier.
    UserError if no gold can be read."""
    verify = verify or find_verifier(data.verifier)
    kept, notes = _readable(name, data, verify)
    train: list[Problem] = []
    held: dict[str, Problem] = {}
    for problem in kept:
        if holdout and is_heldout(problem.prompt, holdout):
            whole = "\n".join(text for _, text in problem.turns)
            held.setdefault(key_of(whole or problem.prompt), problem)
        else:
            train.append(problem)
    left_out = {
        "unreadable": data.lost,
        "gold": len(data.problems) - len(kept),
        "heldout_repeated": len(kept) - len(train) - len(held),
    }
    return Task(
        name,
        Domain(verify, BOXED),
        tuple(train),
        tuple(held.values()),
        source=data.rows.source,
        notes=notes,
        left_out={reason: count for reason, count in left_out.items() if count},
    )


def listed(
    name: str, data: ProblemSet, verify: Verifier | None = None, *, private: bool = False
) -> Benchmark:
    """Return a benchmark with these problems. `verify` replaces the data's verifier. UserError if
    the verifier can read no gold."""
    verify = verify or find_verifier(data.verifier)
    kept, notes = _readable(name, data, verify)
    domain = Domain(verify, BOXED, private=private)
    return Benchmark(name, domain, lambda n: kept[:n], source=data.rows.source, notes=notes)


def _readable(
    name: str, data: ProblemSet, verify: Verifier
) -> tuple[list[Problem], tuple[str, ...]]:
    """Return the problems whose golds the verifier can read, and notes: those of the data, and one
    that counts the problems left out. UserError if no problem is left."""
    problems, file = data.problems, str(data.rows.source.get("file", ""))
    name = f"{name} ({file})" if file and not name.endswith(file) else name
    golds = dict.fromkeys(gold for problem in problems for gold in problem.golds)
    readable = {gold: verify.readable(gold) for gold in golds}
    readable |= dict.fromkeys(_sentences(name, [*golds], verify), False)
    out = {
        p.id: p.gold for p in problems if not p.gold or not any(readable[gold] for gold in p.golds)
    }
    if not out:
        return list(problems), data.rows.notes
    if len(out) == len(problems):
        raise UserError(
            f"The verifier {verify.name} can read none of the golds of {name}. The first is "
            f"{middle_cut(problems[0].gold, 80)!r}.",
            "columns.gold=NAME uses another column; columns.gold_pattern='answer is (.+?)[.]?$' "
            "uses a part of the gold; reward=NAME sets another verifier",
        )
    id_, gold = next(iter(out.items()))
    note = (
        f"{len(out)} of the {len(problems)} problems of {name} left out: the verifier "
        f"{verify.name} cannot read their golds. The first: {id_} ({middle_cut(gold, 20)!r})."
    )
    return [p for p in problems if p.id not in out], (*data.rows.notes, note)


def _sentences(name: str, golds: Sequence[str], verify: Verifier) -> list[str]:
    """Return the golds that are sentences, which verifiers of formulas cannot read. UserError if
    more than a tenth are sentences; for the verifier `text`, only if a pattern finds answers in
    them."""
    sentences = [gold for gold in golds if is_sentence(gold)]
    as_words = verify.name == "text"
    if not verify.golds and not as_words:
        return []
    if 10 * len(sentences) <= len(golds):
        return [] if as_words else sentences
    pattern, first = proposed_pattern(golds), sentences[0]
    if pattern:
        first = next((text for text in sentences if matched(text, pattern).answer), first)
        answer = matched(first, pattern).answer
        hint = f"columns.gold_pattern={shlex.quote(pattern)} finds {answer!r} in this gold"
    elif as_words:
        return []
    else:
        hint = "columns.gold_pattern=PATTERN uses a part; reward.verifier=text compares all words"
    raise UserError(
        f"{len(sentences):,} of {len(golds):,} different golds of {name} are sentences, not "
        f"answers. One is {middle_cut(first, 80)!r}.",
        hint,
    )
