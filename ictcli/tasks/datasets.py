"""The named data sets: tasks gsm8k and math; benchmarks MATH-500, GSM8K, MMLU-STEM, GPQA and AIME.

Each reads its rows from the hub at a pinned commit, or from a file with the same columns.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

from ictcli.errors import UserError
from ictcli.rewards import Verifier
from ictcli.rewards.answers import boxed
from ictcli.rows import Row, text
from ictcli.tasks.golds import behind, choices_of, letter_of, with_choices, worked
from ictcli.tasks.hub import rows_of
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.sources import SOURCES
from ictcli.tasks.split import ProblemSet, listed, split_task
from ictcli.tasks.task import Benchmark, Task
from ictcli.types import Problem

GPQA_CHOICES = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))


@register_task("gsm8k")
def gsm8k_task(data: str | None = None, verify: Verifier | None = None) -> Task:
    """openai/gsm8k, train: 7,473 word problems with integer answers after `####`."""
    rows = rows_of("gsm8k-train", data)
    problems: list[Problem] = []
    solutions: dict[str, str] = {}
    for i, row in enumerate(rows.rows):
        id_, answer = f"gsm8k-train-{i}", text(row, "answer")
        problems.append(Problem(id_, text(row, "question"), behind(answer)))
        solutions[id_] = worked(answer, problems[-1].gold)
    return split_task("gsm8k", ProblemSet(problems, rows, "integer", (), solutions), verify)


@register_task("math")
def math_task(data: str | None = None, verify: Verifier | None = None) -> Task:
    """DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems, gold the solution's last box."""
    rows = rows_of("math-train", data)
    problems: list[Problem] = []
    solutions: dict[str, str] = {}
    levels: dict[str, float] = {}
    for i, row in enumerate(rows.rows):
        id_, solution = f"math-train-{i}", text(row, "solution")
        problems.append(Problem(id_, text(row, "problem"), boxed(solution) or ""))
        solutions[id_] = solution
        level = str(row.columns.get("level")).removeprefix("Level ")
        if level.isdigit():  # some rows have `Level ?`
            levels[id_] = float(level)
    unsolved = {p.id for p in problems if not p.gold}
    data_set = ProblemSet(problems, rows, "math", unsolved, solutions, levels)
    return split_task("math", data_set, verify)


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
    return listed("math500", ProblemSet(_apart(problems), rows, "math"))


@register_benchmark("gsm8k")
def gsm8k(data: str | None = None) -> Benchmark:
    """openai/gsm8k, test: 1,319 word problems with integer answers after `####`."""
    rows = rows_of("gsm8k", data)
    problems = [
        Problem(f"gsm8k-test-{i}", text(row, "question"), behind(text(row, "answer")))
        for i, row in enumerate(rows.rows)
    ]
    return listed("gsm8k", ProblemSet(problems, rows, "integer"))


@register_benchmark("mmlu_stem")
def mmlu_stem(data: str | None = None) -> Benchmark:
    """cais/mmlu, test: 3,018 questions of 18 subjects, 12 of them twice. The subjects take turns,
    so that the first n questions are spread evenly over them."""
    rows = rows_of("mmlu_stem", data)
    subjects: dict[str, list[Problem]] = {}
    for row in rows.rows:
        subject = row.config or text(row, "subject", "type")
        questions = subjects.setdefault(subject, [])
        choices = choices_of(row)
        prompt = with_choices(text(row, "question"), choices)
        gold = letter_of(row, choices, "answer")
        questions.append(Problem(f"{subject}-{len(questions)}", prompt, gold, choices))
    problems = [
        subjects[subject][place]
        for place in range(max(map(len, subjects.values())))
        for subject in sorted(subjects)
        if place < len(subjects[subject])
    ]
    return listed("mmlu_stem", ProblemSet(problems, rows, "choice"))


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
    return listed(name, ProblemSet(problems, rows, "choice"), private=True)


def _shuffled(row: Row) -> Problem:
    """A question with its choices in a random order that depends on its id alone."""
    question = text(row, "Question").strip()
    digest = blake2b(question.encode(), digest_size=8).hexdigest()
    id_ = str(row.columns.get("Record ID") or f"gpqa-{digest}")
    texts = [text(row, column).strip() for column in GPQA_CHOICES]
    order = sorted(range(4), key=lambda place: blake2b(f"{id_} {place}".encode()).digest())
    choices = tuple(texts[place] for place in order)
    return Problem(id_, with_choices(question, choices), "ABCD"[order.index(0)], choices)


@register_benchmark("aime23")
def aime23(data: str | None = None) -> Benchmark:
    """AI-MO/aimo-validation-aime: the 30 of its 90 problems whose url contains 2023."""
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
    """The rows whose url, if they have one, contains the year."""
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
    return listed(name, ProblemSet(problems, rows, "integer"))


def _apart(problems: list[Problem]) -> list[Problem]:
    """The problems with unique ids, as samples are stored by id: copies get a number."""
    taken = {problem.id for problem in problems}
    apart: dict[str, Problem] = {}
    for problem in problems:
        id_, number = problem.id, 1
        while id_ in apart or (number > 1 and id_ in taken):
            number += 1
            id_ = f"{problem.id}#{number}"
        apart[id_] = replace(problem, id=id_)
    return list(apart.values())
