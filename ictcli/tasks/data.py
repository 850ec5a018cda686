"""Tasks from data sets: the hub's GSM8K and MATH, and JSONL files.

One problem in sixteen, by the checksum of its prompt, is held out of training.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.rewards import find_verifier
from ictcli.rewards.math import as_integer, extract
from ictcli.tasks import BOXED, Benchmark, Domain, Task, register_task, shuffled_batch
from ictcli.types import Problem

HELDOUT_DIVISOR = 16


def is_heldout(prompt: str) -> bool:
    return zlib.crc32(prompt.encode()) % HELDOUT_DIVISOR == 0


def split_task(name: str, domain: Domain, problems: list[Problem]) -> Task:
    """A task over a finite set of problems, its held-out part chosen by checksum."""
    if not problems:
        raise UserError(f"The data set {name} is empty.", "give it one problem a line at least")
    held = [p for p in problems if is_heldout(p.prompt)]
    rest = [p for p in problems if not is_heldout(p.prompt)]
    if not held or not rest:
        raise UserError(
            f"The data set {name} is too small to hold a part of it out: {len(problems)} problems.",
            "a few dozen problems at least are needed",
        )
    return Task(
        name,
        domain,
        lambda seed, step, n: shuffled_batch(rest, seed, step, n),
        lambda n: held[:n],
        tuple(problems),
    )


def load_hub(path: str, config: str | None, split: str) -> Iterable[dict[str, Any]]:
    """Rows of a hub data set, through `datasets` (its cache and HF_DATASETS_OFFLINE count)."""
    import datasets  # pyright: ignore[reportMissingTypeStubs]

    try:
        return cast(Any, datasets).load_dataset(path, config, split=split)
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
        raise UserError(
            f"The data set {path} cannot be loaded: {reason}.",
            f"check the network, or that https://huggingface.co/datasets/{path} is open to you",
        ) from error


@register_task("gsm8k")
def gsm8k() -> Task:
    """openai/gsm8k, train: 7,473 word problems with integer answers behind `####`."""
    rows = load_hub("openai/gsm8k", "main", "train")
    problems = [
        Problem(f"gsm8k-{i}", row["question"], row["answer"].rpartition("####")[2].strip())
        for i, row in enumerate(rows)
    ]
    return split_task("gsm8k", Domain(find_verifier("integer"), BOXED), problems)


@register_task("math")
def math() -> Task:
    """DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems, gold the solution's last box."""
    rows = load_hub("DigitalLearningGmbH/MATH-lighteval", "default", "train")
    problems = [
        Problem(f"math-{i}", row["problem"], gold)
        for i, row in enumerate(rows)
        if (gold := extract(row["solution"]))
    ]
    return split_task("math", Domain(find_verifier("math"), BOXED), problems)


def read_jsonl(name: str) -> tuple[list[Problem], Callable[[], Domain]]:
    """Problems of a file with one object a line: prompt (or question, problem) and gold (or
    answer). Golds that are all integers are judged as integers, others by math-verify."""
    path = Path(name)
    if not path.is_file():
        raise UserError(f"There is no data file {name}.", "give the path of a .jsonl file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{name} is not UTF-8: {error}.", "save it as UTF-8") from error
    problems: list[Problem] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        where = f"{name}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise UserError(f"{where} is not JSON: {error}.", "one object a line") from error
        prompt = _first(row, ("prompt", "question", "problem"), where)
        gold = _first(row, ("gold", "answer"), where).rpartition("####")[2].strip()
        problems.append(Problem(str(number), prompt, gold))
    if not problems:
        raise UserError(f"The data set {name} is empty.", "give it one problem a line at least")
    kind = "integer" if all(as_integer(p.gold) is not None for p in problems) else "math"
    return problems, lambda: Domain(find_verifier(kind), BOXED)


def _first(row: Any, names: tuple[str, ...], where: str) -> str:
    if isinstance(row, dict):
        for name in names:
            value = cast(Any, row).get(name)
            if isinstance(value, str | int | float):
                return str(value).encode("utf-8", "replace").decode()  # half a surrogate pair
    raise UserError(
        f"{where} has no {' or '.join(names)}.", 'a line is {"prompt": "...", "gold": "..."}'
    )


def jsonl_task(name: str) -> Task:
    problems, domain = read_jsonl(name)
    return split_task(name, domain(), problems)


def jsonl_benchmark(name: str) -> Benchmark:
    problems, domain = read_jsonl(name)
    return Benchmark(name, domain(), lambda n: problems[:n])
