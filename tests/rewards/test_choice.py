"""The letter that a response decides on."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ictcli.rewards import grade
from tests.cases import FEW

EXAM = Path(__file__).with_name("choices.tsv")
"""A label (a letter, or - for none) and a response a line."""
TEXTS = ["10 m", "12 m", "15 m", "20 m", "25 m", "30 m", "35 m", "40 m", "45 m", "50 m"]

OPENERS = ["", "So ", "Therefore, ", "In conclusion, ", "The rope is light, so ", "Step 3: "]
DECISIONS = [
    "the answer is {}", "the correct option is {}", "{} is the right answer", "it must be {}",
    "option {} is correct", "I would choose {}", "the best answer is therefore {}",
    "this corresponds to choice {}",
]  # fmt: skip
LAYOUTS = ["{}", "({})", "**{}**", "**({})**", '"{}"', "`{}`", "$\\text{{{}}}$", "\\textbf{{({})}}"]
ENDINGS = [".", "!", "", " because the rope is light.", ". I hope this helps."]
SILENT = [
    "Is it {}?", "If the answer is {}, then it is heavy.", "Maybe the answer is {}.",
    "My first thought was {}.", "Some say the answer is {}.", "One option is {}.",
    "The answer might be {}.", "The wrong answer is {}.", "He wrote: the answer is {}.",
    "> The answer is {}.", "~~The answer is {}.~~", '"The answer is {}."', "Vitamin {} is right.",
]  # fmt: skip
PAIR = st.lists(st.sampled_from("ABCDEFGHIJ"), min_size=2, max_size=2, unique=True)


def letter(response: str, known: bool = True) -> str:
    """The letter read from a response; - for none."""
    verdict = grade(response, "A", "choice", choices=TEXTS if known else [])
    return "-" if verdict.status == "unparsed" else verdict.extracted


@given(
    PAIR,
    st.sampled_from(OPENERS),
    st.sampled_from(DECISIONS),
    st.sampled_from(LAYOUTS),
    st.sampled_from(ENDINGS),
    st.booleans(),
)
def test_words_of_the_list_around_one_letter_decide(
    letters: list[str], opener: str, decision: str, layout: str, ending: str, known: bool
) -> None:
    response = opener + decision.format(layout.format(letters[0])) + ending
    assert letter(response, known) == letters[0]


WORD = st.from_regex("[bdfgklmprst][aeiou]([bdfgklmprst][aeiou]){1,3}", fullmatch=True)


@given(PAIR, st.sampled_from(DECISIONS), st.sampled_from(SILENT))
def test_a_question_or_a_supposition_decides_nothing(
    letters: list[str], decision: str, silent: str
) -> None:
    said, supposed = f"So {decision.format(letters[0])}.", silent.format(letters[1])
    assert letter(supposed) == "-"
    assert letter(f"{supposed}\n{said}") == letters[0]


@FEW
@given(PAIR, st.sampled_from(DECISIONS), st.lists(WORD, min_size=1, max_size=6), st.booleans())
def test_what_follows_a_decision_may_explain_it_and_not_take_it_back(
    letters: list[str], decision: str, words: list[str], known: bool
) -> None:
    said, more = decision.format(letters[0]), " ".join(words).capitalize()
    for mark in (".\n", ". "):
        assert letter(f"{said}{mark}{more}.", known) == letters[0]
        for back in ("That is wrong", "It is not", f"{letters[1]} is too long", "I made an error"):
            assert letter(f"{said}{mark}{more}. {back}.", known) == "-"


@given(PAIR, st.sampled_from(["not", "wrong", "maybe", "or {}", "also {}", "?", "wait", "but"]))
def test_a_box_is_upheld_by_its_sentence_and_what_follows(letters: list[str], word: str) -> None:
    first, other = letters
    assert letter(f"The answer is \\boxed{{{first}}}.\nThe rope is light.") == first
    assert letter(f"\\boxed{{{first}}} {word.format(other)}") == "-"
    assert letter(f"\\boxed{{{first}}} and \\boxed{{{other}}}") == "-"
    assert letter(f"It is not \\boxed{{{first}}}.") == "-"


def test_responses_are_read_as_labelled() -> None:
    rows = [line.split("\t") for line in EXAM.read_text(encoding="utf-8").splitlines()]
    responses = [response.replace("\\n", "\n") for _, response in rows]
    n = len(rows)
    found = grade(responses, ["A"] * n, "choice", choices=[TEXTS[:4]] * n)
    read = ["-" if one.status == "unparsed" else one.extracted for one in found]
    assert [row for row, label in zip(rows, read, strict=True) if row[0] != label] == []
