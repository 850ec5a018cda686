"""The named data sets: tasks gsm8k and math; benchmarks MATH-500, GSM8K, MMLU-STEM, GPQA and AIME.

Each reads its rows from the hub at a pinned commit, or from a file with the same columns.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from itertools import zip_longest

from ictcli.errors import UserError
from ictcli.recipe.data import HOLDOUT, ColumnSettings, Example, HubSettings
from ictcli.rewards import Verifier
from ictcli.rewards.answers import boxed
from ictcli.rows import Row, Rows, text
from ictcli.tasks.custom import read_custom, read_rows, with_own_ids
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
    "gsm8k-train": HubSource(*_GSM8K, ("main",), "train"),
    "math-train": HubSource(*_MATH, ("default",), "train"),
    "math500": HubSource(*_MATH500, ("default",), "test"),
    "gsm8k": HubSource(*_GSM8K, ("main",), "test"),
    "mmlu_stem": HubSource(*_MMLU, MMLU_STEM, "test"),
    "gpqa": HubSource(*_GPQA, ("gpqa_main",), "train", gated=True),
    "gpqa_diamond": HubSource(*_GPQA, ("gpqa_diamond",), "train", gated=True),
    "aime23": HubSource(*_AIMO, ("default",), "train"),
    "aime24": HubSource(*_AIME24, ("default",), "train"),
    "aime25": HubSource(*_AIME25, ("AIME2025-I", "AIME2025-II"), "test"),
}
GPQA_CHOICES = ("Correct Answer", *(f"Incorrect Answer {number}" for number in (1, 2, 3)))


def rows_of(name: str, data: str | None, hub: HubSettings | None = None) -> Rows:
    """Return the rows of a named source, or of the user's `data` in its place."""
    source = SOURCES[name]
    return load(source) if data is None else read_rows(data, hub, source.split)


Read = Callable[[str, Rows], ProblemSet]
"""Function from (name, rows) to the problems of a named data set."""


def _task(
    name: str,
    read: Read,
    data: str | None = None,
    verify: Verifier | None = None,
    columns: ColumnSettings | None = None,
    hub: HubSettings | None = None,
    holdout: int | None = HOLDOUT,
) -> Task:
    """Return a task with the rows of the hub, or with the user's `data` in their place."""
    rows = rows_of(f"{name}-train", data, hub)
    if data is None:
        problems = read(f"{name}-train", rows)
    else:
        verifier = "integer" if name == "gsm8k" else "math"
        problems = replace(read_custom(data, columns, rows=rows), verifier=verifier)
    return split_task(name, problems, verify, holdout)


def _benchmark(
    name: str,
    read: Read,
    data: str | None = None,
    *,
    private: bool = False,
    shots: Shots | None = None,
) -> Benchmark:
    """Return a benchmark with the rows of the hub, or of a file with the same columns."""
    bench = listed(name, read(name, rows_of(name, data)), private=private)
    return replace(bench, shots=shots)


def _problems(rows: Rows, verifier: str, problem: Callable[[int, Row], Problem]) -> ProblemSet:
    """Return the problems that `problem(number from 0, row)` makes of the rows."""
    problems = [replace(problem(i, row), columns=row.columns) for i, row in enumerate(rows.rows)]
    return ProblemSet(with_own_ids(problems), rows, verifier)


def _gsm8k(name: str, rows: Rows) -> ProblemSet:
    def problem(i: int, row: Row) -> Problem:
        answer = text(row, "answer")
        id_ = f"{name if name.endswith('train') else f'{name}-test'}-{i}"
        gold = behind(answer)
        return Problem(id_, text(row, "question"), gold, solution=worked(answer, gold))

    return _problems(rows, "integer", problem)


def _math(name: str, rows: Rows) -> ProblemSet:
    def problem(i: int, row: Row) -> Problem:
        solution, question = text(row, "solution"), text(row, "problem")
        gold = boxed(solution) or ""
        return Problem(f"{name}-{i}", question, gold, solution=solution)

    return _problems(rows, "math", problem)


def _math500(name: str, rows: Rows) -> ProblemSet:
    def problem(i: int, row: Row) -> Problem:
        id_ = str(row.columns.get("unique_id") or f"{name}-{i}")
        return Problem(id_, text(row, "problem"), text(row, "answer").strip())

    return _problems(rows, "math", problem)


def _mmlu(name: str, rows: Rows) -> ProblemSet:
    """Return problems whose subjects alternate, so that the first n cover them evenly."""
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
    return ProblemSet(problems, rows, "choice")


def _gpqa(name: str, rows: Rows) -> ProblemSet:
    """Return problems with their choices in a random order that depends on the question's id."""

    def problem(_: int, row: Row) -> Problem:
        question = text(row, "Question").strip()
        digest = blake2b(question.encode(), digest_size=8).hexdigest()
        id_ = str(row.columns.get("Record ID") or f"gpqa-{digest}")
        texts = [text(row, column).strip() for column in GPQA_CHOICES]
        order = sorted(range(4), key=lambda place: blake2b(f"{id_} {place}".encode()).digest())
        choices = tuple(texts[place] for place in order)
        return Problem(id_, with_choices(question, choices), "ABCD"[order.index(0)], choices)

    return _problems(rows, "choice", problem)


def _aime(name: str, rows: Rows) -> ProblemSet:
    """Return the problems of the year in the name: of rows whose url, if any, contains the year."""
    year, question = f"20{name[-2:]}", "question" if name == "aime25" else "problem"
    kept = [row for row in rows.rows if year in str(row.columns.get("url") or year)]
    if not kept:
        raise UserError(f"The data has no row of {year}.", f"the url of such a row contains {year}")

    def problem(i: int, row: Row) -> Problem:
        return Problem(f"{name}-{i}", text(row, question), text(row, "answer").strip())

    return _problems(replace(rows, rows=kept), "integer", problem)


def _solutions(data: str | None) -> list[Example]:
    """Return GSM8K's training problems as examples, with their solutions unchanged."""
    rows = rows_of("gsm8k-train", data).rows
    return [Example(prompt=text(row, "question"), response=text(row, "answer")) for row in rows]


GSM8K_SHOTS = Shots(
    "gsm8k-train",
    _solutions,
    template="Question: {question}\nAnswer:",
    pattern=r"\A(?s:.*?)#### (-?[0-9.,]+)",
)
"""As in lm-eval's task gsm8k, strict match: of several answers in a response the first counts."""

register_task(
    "gsm8k", "openai/gsm8k, train: 7,473 word problems with integer answers after `####`."
)(partial(_task, "gsm8k", _gsm8k))
register_task(
    "math",
    "DigitalLearningGmbH/MATH-lighteval, train: 7,500 problems; gold: a solution's last box.",
)(partial(_task, "math", _math))

for _name, _about, _read in (
    ("math500", "HuggingFaceH4/MATH-500: 500 problems of MATH's test set.", _math500),
    ("mmlu_stem", "cais/mmlu, test: 18 subjects, 3,018 questions of which 12 repeat.", _mmlu),
    ("aime23", "AIME 2023: 30 problems.", _aime),
    ("aime24", "AIME 2024: 30 problems.", _aime),
    ("aime25", "AIME 2025: 30 problems.", _aime),
):
    register_benchmark(_name, _about)(partial(_benchmark, _name, _read))
register_benchmark(
    "gsm8k", "openai/gsm8k, test: 1,319 word problems with integer answers after `####`."
)(partial(_benchmark, "gsm8k", _gsm8k, shots=GSM8K_SHOTS))
for _name in ("gpqa", "gpqa_main", "gpqa_diamond"):
    register_benchmark(
        _name, "Idavidrein/gpqa: 448 questions, or the 198 of gpqa_diamond that experts agree on."
    )(partial(_benchmark, _name.removesuffix("_main"), _gpqa, private=True))
