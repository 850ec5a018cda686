"""The seven benchmarks: MATH-500, GSM8K, MMLU-STEM, GPQA and AIME 2023, 2024, 2025.

Each loads its rows from the hub at a pinned commit, or from a file with the same columns.
"""

from __future__ import annotations

from hashlib import blake2b

from ictcli.errors import UserError
from ictcli.rewards import find_verifier
from ictcli.rows import Row, text
from ictcli.tasks import BOXED, Benchmark, Domain, register_benchmark
from ictcli.tasks.data import behind, choices_of, letter_of, listed, with_choices
from ictcli.tasks.hub import rows_of
from ictcli.tasks.sources import SOURCES
from ictcli.types import Problem

GPQA_CHOICES = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))


@register_benchmark("math500")
def math500(data: str | None = None) -> Benchmark:
    """HuggingFaceH4/MATH-500: 500 problems of MATH's test set."""
    rows = rows_of("math500", data)
    problems = [
        Problem(
            str(row.columns.get("unique_id") or f"math500-{i}"),
            text(row, "problem"),
            text(row, "answer").strip(),
        )
        for i, row in enumerate(rows.rows)
    ]
    return listed("math500", Domain(find_verifier("math"), BOXED), _apart(problems), rows)


@register_benchmark("gsm8k")
def gsm8k(data: str | None = None) -> Benchmark:
    """openai/gsm8k, test: 1,319 word problems with integer answers behind `####`."""
    rows = rows_of("gsm8k", data)
    problems = [
        Problem(f"gsm8k-test-{i}", text(row, "question"), behind(text(row, "answer")))
        for i, row in enumerate(rows.rows)
    ]
    return listed("gsm8k", Domain(find_verifier("integer"), BOXED), problems, rows)


@register_benchmark("mmlu_stem")
def mmlu_stem(data: str | None = None) -> Benchmark:
    """cais/mmlu, test: 3,018 questions of 18 subjects, 12 of them twice. Their order is one of each
    subject in turn, so that the first n are an even spread and not all abstract algebra."""
    rows = rows_of("mmlu_stem", data)
    subjects: dict[str, list[Problem]] = {}
    for row in rows.rows:
        subject = row.config or text(row, "subject", "type")
        of_it = subjects.setdefault(subject, [])
        choices = choices_of(row)
        prompt = with_choices(text(row, "question"), choices)
        gold = letter_of(row, choices, "answer")
        of_it.append(Problem(f"{subject}-{len(of_it)}", prompt, gold, choices))
    problems = [
        subjects[subject][place]
        for place in range(max(map(len, subjects.values())))
        for subject in sorted(subjects)
        if place < len(subjects[subject])
    ]
    return listed("mmlu_stem", Domain(find_verifier("choice"), BOXED), problems, rows)


@register_benchmark("gpqa")
@register_benchmark("gpqa_main")
def gpqa(data: str | None = None) -> Benchmark:
    """Idavidrein/gpqa, gpqa_main: 448 questions."""
    return _gpqa("gpqa", data)


@register_benchmark("gpqa_diamond")
def gpqa_diamond(data: str | None = None) -> Benchmark:
    """Idavidrein/gpqa, gpqa_diamond: the 198 of them that experts agree on."""
    return _gpqa("gpqa_diamond", data)


def _gpqa(name: str, data: str | None) -> Benchmark:
    rows = rows_of(name, data)
    problems = _apart([_shuffled(row) for row in rows.rows])
    domain = Domain(find_verifier("choice"), BOXED, private=True)
    return listed(name, domain, problems, rows)


def _shuffled(row: Row) -> Problem:
    """A question with its choices in the order of a checksum of its id and each one's place: the
    same on every machine, and no other question's."""
    question = text(row, "Question").strip()
    digest = blake2b(question.encode(), digest_size=8).hexdigest()
    id_ = str(row.columns.get("Record ID") or f"gpqa-{digest}")
    texts = [text(row, column).strip() for column in GPQA_CHOICES]
    order = sorted(range(4), key=lambda place: blake2b(f"{id_} {place}".encode()).digest())
    choices = tuple(texts[place] for place in order)
    return Problem(id_, with_choices(question, choices), "ABCD"[order.index(0)], choices)


@register_benchmark("aime23")
def aime23(data: str | None = None) -> Benchmark:
    """AI-MO/aimo-validation-aime: the 30 of its 90 problems whose url names 2023."""
    return _aime("aime23", data, "problem", year="2023")


@register_benchmark("aime24")
def aime24(data: str | None = None) -> Benchmark:
    """HuggingFaceH4/aime_2024: 30 problems."""
    return _aime("aime24", data, "problem")


@register_benchmark("aime25")
def aime25(data: str | None = None) -> Benchmark:
    """opencompass/AIME2025: AIME I and II, 15 problems each."""
    return _aime("aime25", data, "question")


def _aime(name: str, data: str | None, question: str, year: str = "") -> Benchmark:
    """Rows whose url, where they have one, holds the year."""
    rows = rows_of(name, data)
    kept = [row for row in rows.rows if year in str(row.columns.get("url") or year)]
    if not kept:
        raise UserError(
            f"No row of {data or SOURCES[name].path} is of {year}.", f"its url holds {year}"
        )
    problems = [
        Problem(f"{name}-{i}", text(row, question), text(row, "answer").strip())
        for i, row in enumerate(kept)
    ]
    return listed(name, Domain(find_verifier("integer"), BOXED), problems, rows)


def _apart(problems: list[Problem]) -> list[Problem]:
    """The same, a repeated id followed by its number: samples are kept by id."""
    taken = {problem.id for problem in problems}
    given: set[str] = set()
    apart: list[Problem] = []
    for problem in problems:
        id_, number = problem.id, 1
        while id_ in given or (number > 1 and id_ in taken):
            number += 1
            id_ = f"{problem.id}#{number}"
        given.add(id_)
        apart.append(Problem(id_, problem.prompt, problem.gold, problem.choices))
    return apart
