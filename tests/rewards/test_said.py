"""What a response says: no box or `####` that it hides, only thinks, denies or takes back."""

import time

import pytest

from ictcli.rewards import grade
from ictcli.rewards.said import said

DENIED = [
    "-@", "2\\cdot @", "@+1", "@^2", "twice @", "1 less than @", "One might think @, but no.",
    "The answer is not $@$.", "The answer isn't @.", "Never write @", "It cannot be @.",
    "I do not think the answer is @.", "It is wrong to say that it is @.", "The wrong answer is @.",
    "Wrong: @", "x \\ne @", "If the answer is @, pigs fly.", "It is not:\n\n\\[@\\]", "Not 39 or @",
    "rather than @", "答案不是@", "La respuesta no es @",
]  # fmt: skip
TAKEN_BACK = [
    "@ is wrong", "@, which is incorrect.", "@ is not the answer.", "@ (wrong)", "@? No.",
    "Is it @?", "@. No, it is 41.", "@. Actually, 41.", "@. Scratch that.", "@. The answer is 41.",
    "@\nWait, that is wrong: it is 41.", "@. I made an arithmetic error.", "@ ❌",
]  # fmt: skip
HIDDEN = ["<!-- @ -->", "<!-- @", "~~@~~", "<del>@</del>", "<s>41</s> <s>@</s>"]
THOUGHT = [
    "<think>@</think>The answer is 41.", "@</think> It is 41.", "<think>@, or else 41",
    "[THINK]@[/THINK] 41", "<reasoning>@</reasoning> 41",
]  # fmt: skip
SAID = [
    "It is not 3, so the answer is @", "It is not 41 but @", "The answer is @, not 41.",
    "The number of wrong answers is @.", "The number of those that are not prime is @.",
    "We don't use it.\n\n@", "It cannot be 41, and it is @.", "Is it 41? No, @", "~~41~~ @",
    "x~~=~~@", "@. Wait, let me check: 20+20=40. That is correct.", "@. The answer is 40 dollars.",
    "He got @ wrong.", "She did not use @", "2\\cdot 5!=@", "He must delete @",
    "@^\\circ", "The other half, @", "x \\ge @",
    "@. No other value works.", "@. That is not a coincidence.", "@. It is impossible to add.",
    "<think>41</think> @", "<think>so @.</think>\n", "<think>so $@$", "I can't believe it: @",
    "There are 22 more that float than not\n@", "So she made no less than 3\n\n@", "```\n@\n```",
    "~~~\n@\n~~~",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["math", "integer", "text"])
def test_what_is_denied_taken_back_hidden_or_only_thought_is_no_answer(kind: str) -> None:
    texts = [*DENIED, *TAKEN_BACK, *HIDDEN, *THOUGHT]
    assert _rewarded(texts, kind, "\\boxed{40}") == []
    lines = [*HIDDEN, *THOUGHT, "@\nWait, that is wrong: it is 41.", "Wrong answer:\n@"]
    assert _rewarded(lines, kind, "#### 40\n") == []


@pytest.mark.parametrize("kind", ["math", "integer", "text"])
def test_a_negation_of_something_else_leaves_the_answer(kind: str) -> None:
    assert _rewarded(SAID, kind, "\\boxed{40}") == SAID


@pytest.mark.parametrize("text", [*DENIED, *TAKEN_BACK, *HIDDEN])
def test_without_a_denied_box_the_one_before_it_counts(text: str) -> None:
    response = "\\boxed{7}.\n\n" + text.replace("@", "\\boxed{40}")
    assert grade(response, "7").status == "correct"


PHRASES = [
    "not ", "wait no it is ", "the answer is ", "\\boxed{4} is wrong. ", "#### 4\nNo.\n", "<think>",
    "</think>", "~~a", "~~a~~\n\n", "<!--", "-->", "<s>",
    "that is not ", "i made a ", "or nor ", "if the answer is ", "\\boxed{", "no, ", "% \n", "$ ",
]  # fmt: skip


@pytest.mark.parametrize("phrase", PHRASES)
def test_no_repeated_phrase_takes_more_than_linear_time(phrase: str) -> None:
    for before, after in (("", "\\boxed{4}"), ("\\boxed{4}. ", ""), ("#### 4\n", "")):
        started = time.process_time()
        said(before + phrase * (100_000 // len(phrase)) + after)
        assert time.process_time() - started < 1


def _rewarded(texts: list[str], kind: str, mark: str) -> list[str]:
    verdicts = grade([text.replace("@", mark) for text in texts], ["40"] * len(texts), kind)
    return [t for t, one in zip(texts, verdicts, strict=True) if one.status == "correct"]
