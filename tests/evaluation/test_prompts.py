"""Templates, and the tokens that end a response."""

from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import EOS_ID, make_tokenizer
from pydantic import ValidationError

from ictcli.engine.models import stop_ids
from ictcli.errors import UserError
from ictcli.evaluation.provenance import prompt_settings
from ictcli.files.fingerprint import difference
from ictcli.recipe.data import Example, PromptSettings
from ictcli.tasks import Domain, find_benchmark
from ictcli.tasks.prompts import render, template_of
from ictcli.types import Problem

PROBLEM = Problem("1", r"What is {question} of \frac{1}{0}?", "2")
WORDS = Domain(find_benchmark("chain").domain.verify, "In a box.")


class Chatty(SimpleNamespace):
    chat_template = "there is one"
    bos_token = "<s>"

    def apply_chat_template(self, messages: list[dict[str, str]], **_: Any) -> str:
        return "".join(f"<{m['role']}>{m['content']}" for m in messages)


def test_a_text_of_one_s_own_is_the_whole_prompt() -> None:
    own = PromptSettings(template="Q: {question}\n{x}A:")
    expected = f"Q: {PROBLEM.prompt}\n{{x}}A:"
    for tokenizer in (Chatty(), make_tokenizer()):
        assert render(tokenizer, PROBLEM, WORDS, own) == expected
        assert template_of(tokenizer, WORDS, own) == "own"
    more = own.model_copy(update={"suffix": "Boxed.", "system": "Be brief."})
    text = render(Chatty(), PROBLEM, WORDS, more)
    assert text == f"Be brief.\nQ: {PROBLEM.prompt}\nBoxed.\n{{x}}A:"


def test_the_other_templates_are_as_they_were() -> None:
    asked = f"{PROBLEM.prompt}\nIn a box."
    found = {
        name: render(Chatty(), PROBLEM, WORDS, PromptSettings(template=name))
        for name in ("auto", "chat", "none")
    }
    chat = f"<user>{asked}"
    assert found == {"auto": chat, "chat": chat, "none": asked}


@pytest.mark.parametrize("template", ["", "chatty", "{Question}", "question"])
def test_a_template_without_a_place_for_the_question_is_refused(template: str) -> None:
    with pytest.raises(ValidationError, match="question"):
        PromptSettings(template=template)


EXAMPLES = (Example(prompt="a?", response="A."), Example(prompt="b?", response="B."))


def test_examples_are_turns_of_a_chat_and_asked_as_the_question_is() -> None:
    shown = PromptSettings(examples=EXAMPLES, system="Be brief.")
    assert render(Chatty(), PROBLEM, WORDS, shown) == (
        "<system>Be brief.<user>a?\nIn a box.<assistant>A.<user>b?\nIn a box.<assistant>B."
        f"<user>{PROBLEM.prompt}\nIn a box."
    )


def test_examples_are_text_before_the_question_where_there_is_no_chat() -> None:
    shown = PromptSettings(examples=EXAMPLES, template="none", system="Be brief.")
    assert render(Chatty(), PROBLEM, WORDS, shown) == (
        f"Be brief.\na?\nIn a box.\nA.\n\nb?\nIn a box.\nB.\n\n{PROBLEM.prompt}\nIn a box."
    )
    own = PromptSettings(examples=EXAMPLES, template="<s>Q: {question}\nA:")
    assert render(Chatty(), PROBLEM, WORDS, own) == (
        f"<s>Q: a?\nA: A.\n\nQ: b?\nA: B.\n\nQ: {PROBLEM.prompt}\nA:"
    )


def test_each_example_decides_what_an_evaluation_is() -> None:
    plain = prompt_settings(PromptSettings())
    assert plain == {"template": "auto", "system": "", "suffix": None}
    shown = prompt_settings(PromptSettings(examples=EXAMPLES))
    other = prompt_settings(PromptSettings(examples=EXAMPLES[::-1]))
    assert difference({"prompt": plain}, {"prompt": shown}) is not None
    assert difference({"prompt": shown}, {"prompt": other}) is not None
    assert prompt_settings(PromptSettings(shots=2, max_tokens=9)) == plain  # matters of training


FIRST = len(make_tokenizer())


def tokenizer_of(*special: str, plain: tuple[str, ...] = (), eos: str | None = None) -> Any:
    """A tokenizer with these tokens, the first of id FIRST."""
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens(list(plain))
    if eos is not None:
        tokenizer.eos_token = eos
    return tokenizer


def test_a_base_model_stops_at_the_end_of_a_turn_too() -> None:
    qwen = tokenizer_of("<|endoftext|>", "<|im_start|>", "<|im_end|>", eos="<|endoftext|>")
    assert stop_ids(qwen, FIRST) == stop_ids(qwen, [FIRST, FIRST + 2], None) == (FIRST, FIRST + 2)
    llama = tokenizer_of(
        "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", eos="<|end_of_text|>"
    )
    assert stop_ids(llama) == (FIRST + 1, FIRST + 2)


def test_only_special_tokens_stop() -> None:
    assert stop_ids(tokenizer_of("<s>", plain=("</s>", "<|im_end|>")), 7) == (7,)


def test_the_end_of_a_message_is_not_that_of_the_answer() -> None:
    harmony = tokenizer_of("<|start|>", "<|end|>", "<|return|>", "<|channel|>", eos="<|return|>")
    assert stop_ids(harmony, [FIRST + 2]) == (FIRST + 2,)
    assert stop_ids(tokenizer_of("<|end|>", "<|user|>"), 5) == (5, FIRST)


@pytest.mark.parametrize("stop", [-1, 2**31, [7, 10**30], True, 7.0, "</s>"])
def test_what_is_no_token_is_named(stop: Any) -> None:
    with pytest.raises(UserError, match="eos_token_id is"):
        stop_ids(make_tokenizer(), stop)


def test_the_built_in_chain_stops_where_it_did() -> None:
    assert stop_ids(make_tokenizer(), EOS_ID) == (EOS_ID,)
