"""The named data sets: tasks gsm8k and math; benchmarks MATH-500, GSM8K, MMLU-STEM, GPQA and AIME.

Add one here. Each reads its rows from the hub at a pinned commit, or from a file with the same
columns.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import zip_longest

from ictcli.errors import UserError
from ictcli.recipe.data import ColumnSettings, Example, HubSettings
from ictcli.rewards import Verifier
from ictcli.rewards.answers import boxed
from ictcli.rows import Row, Rows, text
from ictcli.tasks.custom import read_custom, read_rows
from ictcli.tasks.golds import behind, choices_of, letter_of, with_choices, worked
from ictcli.tasks.hub import HubSource, load
from ictcli.tasks.registry import register_benchmark, register_task
from ictcli.tasks.split import ProblemSet, listed, split_task
from ictcli.tasks.task import Benchmark, Shots, Task
from ictcli.types import Problem

MMLU_STEM = (
    *("abstract_algebra", "astronomy", "college_biology", "college_chemistry"),
    *("college_computer_science", "college_mathematics", "college_physics", "computer_security"),
    *("conceptual_physics", "electrical_engineering", "elementary_mathematics"),
    *("high_school_biology", "high_school_chemistry", "high_school_computer_science"),
    *("high_school_mathematics", "high_school_physics", "high_school_statistics"),
    "machine_learning",
)
_GSM8K = ("openai/gsm8k", "740312add88f781978c0658806c59bc2815b9866")
_GPQA = ("Idavidrein/gpqa", "633f5ee89ab8ad4522a9f850766b73f62147ffdd")
_MATH = ("DigitalLearningGmbH/MATH-lighteval", "0530c78699ea5e8eb5530600900e1f328b48acad")
_MATH500 = ("HuggingFaceH4/MATH-500", "6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be")
_MMLU = ("cais/mmlu", "c30699e8356da336a370243923dbaf21066bb9fe")
_AIMO = ("AI-MO/aimo-validation-aime", "13f9e12f613e720c2a2b2f345dd04b998a29494d")
_AIME24 = ("HuggingFaceH4/aime_2024", "2fe88a2f1091d5048c0f36abc874fb997b3dd99a")
_AIME25 = ("opencompass/AIME2025", "a6ad95f611d72cf628a80b58bd0432ef6638f958")

SOURCES = {
    "gsm8k-train": HubSource(*_GSM8K, ("main",), "train", 7473),
    "math-train": HubSource(*_MATH, ("default",), "train", 7500),
    "math500": HubSource(*_MATH500, ("default",), "test", 500),
    "gsm8k": HubSource(*_GSM8K, ("main",), "test", 1319),
    "mmlu_stem": HubSource(*_MMLU, MMLU_STEM, "test", 3018),
    "gpqa": HubSource(*_GPQA, ("gpqa_main",), "train", 448, gated=True),
    "gpqa_diamond": HubSource(*_GPQA, ("gpqa_diamond",), "train", 198, gated=True),
    "aime23": HubSource(*_AIMO, ("default",), "train", 90),
    "aime24": HubSource(*_AIME24, ("default",), "train", 30),
    "aime25": HubSource(*_AIME25, ("AIME2025-I", "AIME2025-II"), "test", 30),
}
GPQA_CHOICES = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))


def rows_of(name: str, data: str | None, hub: HubSettings | None = None) -> Rows:
    """The rows of a named source, or of the data that replaces it."""
    source = SOURCES[name]
    return load(source) if data is None else read_rows(data, hub, source.split)


def _in_place(
    rows: Rows,
    data: str | None,
    columns: ColumnSettings | None,
    usual: tuple[str, str],
    verifier: str,
) -> ProblemSet | None:
    """The problems of data of one's own in place of a task's; None where it has the columns that
    the hub's has, and none are named."""
    unnamed = columns is None or columns == ColumnSettings()
    if data is None or (unnamed and {*usual} <= {*rows.columns}):
        return None
    return replace(read_custom(data, columns, rows=rows), verifier=verifier)


def _gsm8k(part: str, rows: Rows) -> ProblemSet:
    def problem(i: int, row: Row) -> Problem:
        answer = text(row, "answer")
        id_, gold = f"gsm8k-{part}-{i}", behind(answer)
        return Problem(id_, text(row, "question"), gold, solution=worked(answer, gold))

    return _problems(rows, problem, "integer")


@register_task("gsm8k")
def gsm8k_task(
    data: str | None = None,
    verify: Verifier | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
) -> Task:
    """openai/gsm8k, train: 7,473 word problems with integer answers after `####`."""
    rows = rows_of("gsm8k-train", data, hub)
    own = _in_place(rows, data, columns, ("question", "answer"), "integer")
    return split_task("gsm8k", own or _gsm8k("train", rows), verify)


@register_task("math")
def math_task(
    data: str | None = None,
    verify: Verifier | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
) -> Task:
    """DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems, gold the solution's last box."""

    def problem(i: int, row: Row) -> Problem:
        solution = text(row, "solution")
        level = str(row.columns.get("level")).removeprefix("Level ")
        known = float(level) if level.isdigit() else None  # some rows have `Level ?`
        gold = boxed(solution) or ""
        question = text(row, "problem")
        return Problem(f"math-train-{i}", question, gold, solution=solution, difficulty=known)

    rows = rows_of("math-train", data, hub)
    if own := _in_place(rows, data, columns, ("problem", "solution"), "math"):
        return split_task("math", own, verify)
    data_set = _problems(rows, problem, "math")
    unsolved = {p.id for p in data_set.problems if not p.gold}
    return split_task("math", replace(data_set, unsolved=unsolved), verify)


@register_benchmark("math500")
def math500(data: str | None = None) -> Benchmark:
    """HuggingFaceH4/MATH-500: 500 problems of MATH's test set."""

    def problem(i: int, row: Row) -> Problem:
        id_ = str(row.columns.get("unique_id") or f"math500-{i}")
        return Problem(id_, text(row, "problem"), text(row, "answer").strip())

    return listed("math500", _problems(rows_of("math500", data), problem, "math"))


def _solutions(data: str | None) -> list[Example]:
    """GSM8K's training problems with their solutions as they stand."""
    rows = rows_of("gsm8k-train", data).rows
    return [Example(prompt=text(row, "question"), response=text(row, "answer")) for row in rows]


GSM8K_SHOTS = Shots(
    "gsm8k-train",
    _solutions,
    template="Question: {question}\nAnswer:",
    pattern=r"\A(?s:.*?)#### (-?[0-9.,]+)",
)
"""As lm-eval's task gsm8k, strict match: the first answer counts, as a base model goes on."""


@register_benchmark("gsm8k")
def gsm8k(data: str | None = None) -> Benchmark:
    """openai/gsm8k, test: 1,319 word problems with integer answers after `####`."""
    rows = rows_of("gsm8k", data)
    return replace(listed("gsm8k", _gsm8k("test", rows)), shots=GSM8K_SHOTS)


@register_benchmark("mmlu_stem")
def mmlu_stem(data: str | None = None) -> Benchmark:
    """cais/mmlu, test: 3,018 questions of 18 subjects, 12 of them twice.

    The subjects take turns, so that the first n questions are spread evenly over them."""
    rows = rows_of("mmlu_stem", data)
    subjects: dict[str, list[Problem]] = {}
    for row in rows.rows:
        subject = row.config or text(row, "subject", "type")
        questions = subjects.setdefault(subject, [])
        choices = choices_of(row)
        prompt = with_choices(text(row, "question"), choices)
        gold = letter_of(row, choices, text(row, "answer"))
        questions.append(Problem(f"{subject}-{len(questions)}", prompt, gold, choices))
    turns = zip_longest(*(subjects[subject] for subject in sorted(subjects)))
    problems = [problem for turn in turns for problem in turn if problem is not None]
    return listed("mmlu_stem", ProblemSet(problems, rows, "choice"))


def _gpqa(name: str, data: str | None = None) -> Benchmark:
    """Idavidrein/gpqa: the 448 questions of gpqa_main, or the 198 that experts agree on."""
    return listed(name, _problems(rows_of(name, data), _shuffled, "choice"), private=True)


register_benchmark("gpqa")(partial(_gpqa, "gpqa"))
register_benchmark("gpqa_main")(partial(_gpqa, "gpqa"))
register_benchmark("gpqa_diamond")(partial(_gpqa, "gpqa_diamond"))


def _shuffled(_: int, row: Row) -> Problem:
    """A question with its choices in a random order that depends on its id alone."""
    question = text(row, "Question").strip()
    digest = blake2b(question.encode(), digest_size=8).hexdigest()
    id_ = str(row.columns.get("Record ID") or f"gpqa-{digest}")
    texts = [text(row, column).strip() for column in GPQA_CHOICES]
    order = sorted(range(4), key=lambda place: blake2b(f"{id_} {place}".encode()).digest())
    choices = tuple(texts[place] for place in order)
    return Problem(id_, with_choices(question, choices), "ABCD"[order.index(0)], choices)


def _aime(name: str, question: str, data: str | None = None, year: str = "") -> Benchmark:
    """The 30 problems of a year: the rows whose url, if they have one, contains it."""
    rows = rows_of(name, data)
    kept = [row for row in rows.rows if year in str(row.columns.get("url") or year)]
    if not kept:
        raise UserError(
            f"No row of {data or SOURCES[name].path} is of {year}.", f"its url holds {year}"
        )

    def problem(i: int, row: Row) -> Problem:
        return Problem(f"{name}-{i}", text(row, question), text(row, "answer").strip())

    return listed(name, _problems(replace(rows, rows=kept), problem, "integer"))


register_benchmark("aime23")(partial(_aime, "aime23", "problem", year="2023"))
register_benchmark("aime24")(partial(_aime, "aime24", "problem"))
register_benchmark("aime25")(partial(_aime, "aime25", "question"))


def _problems(rows: Rows, problem: Callable[[int, Row], Problem], verifier: str) -> ProblemSet:
    """A problem a row, made of the number of the row, from 0, and the row."""
    problems = [replace(problem(i, row), columns=row.columns) for i, row in enumerate(rows.rows)]
    return ProblemSet(_apart(problems), rows, verifier)


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
