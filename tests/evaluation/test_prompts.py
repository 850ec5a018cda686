"""Templates, and the tokens that end a response."""

from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import EOS_ID, make_tokenizer

from ictcli.engine.models import stop_ids
from ictcli.errors import UserError
from ictcli.evaluation.provenance import prompt_settings
from ictcli.files.origin import difference
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


ASKED = f"{PROBLEM.prompt}\nIn a box."
EXAMPLES = (Example(prompt="a?", response="A."), Example(prompt="b?", response="B."))
SHOWN = PromptSettings(examples=EXAMPLES, system="Be brief.")
OWN = PromptSettings(template="Q: {question}\n{x}A:")


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (PromptSettings(), f"<user>{ASKED}"),
        (PromptSettings(template="none"), ASKED),
        (OWN, f"Q: {PROBLEM.prompt}\n{{x}}A:"),
        (
            OWN.model_copy(update={"suffix": "Boxed.", "system": "Be brief."}),
            f"Be brief.\nQ: {PROBLEM.prompt}\nBoxed.\n{{x}}A:",
        ),
        # examples are turns of a chat, asked as the question is, or text before it
        (
            SHOWN,
            "<system>Be brief.<user>a?\nIn a box.<assistant>A.<user>b?\nIn a box.<assistant>B."
            f"<user>{ASKED}",
        ),
        (
            SHOWN.model_copy(update={"template": "none"}),
            f"Be brief.\na?\nIn a box.\nA.\n\nb?\nIn a box.\nB.\n\n{ASKED}",
        ),
        (
            PromptSettings(examples=EXAMPLES, template="<s>Q: {question}\nA:"),
            f"<s>Q: a?\nA: A.\n\nQ: b?\nA: B.\n\nQ: {PROBLEM.prompt}\nA:",
        ),
    ],
)
def test_how_a_model_is_asked(prompt: PromptSettings, text: str) -> None:
    assert render(Chatty(), PROBLEM, WORDS, prompt) == text
    assert (template_of(Chatty(), WORDS, prompt) == "own") == ("{question}" in prompt.template)


def test_each_example_decides_what_an_evaluation_is() -> None:
    plain = prompt_settings(PromptSettings())
    assert plain == {"template": "auto", "system": "", "suffix": None, "examples": []}
    shown = prompt_settings(PromptSettings(examples=EXAMPLES))
    other = prompt_settings(PromptSettings(examples=EXAMPLES[::-1]))
    assert difference({"prompt": plain}, {"prompt": shown}) is not None
    assert difference({"prompt": shown}, {"prompt": other}) is not None
    assert prompt_settings(PromptSettings(shots=2, max_tokens=9)) == plain  # matters of training


FIRST = len(make_tokenizer())


def tokenizer_of(*special: str, plain: tuple[str, ...] = (), eos: str | None = None) -> Any:
    tokenizer = make_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(special)})
    tokenizer.add_tokens(list(plain))
    if eos is not None:
        tokenizer.eos_token = eos
    return tokenizer


QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
LLAMA = ("<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>")
HARMONY = ("<|start|>", "<|end|>", "<|return|>", "<|channel|>")


def test_a_response_ends_at_the_model_s_own_end_and_at_the_end_of_a_turn() -> None:
    qwen = tokenizer_of(*QWEN, eos="<|endoftext|>")
    assert stop_ids(qwen, FIRST) == stop_ids(qwen, [FIRST, FIRST + 2], None) == (FIRST, FIRST + 2)
    assert stop_ids(tokenizer_of(*LLAMA, eos="<|end_of_text|>")) == (FIRST + 1, FIRST + 2)
    # only special tokens stop
    assert stop_ids(tokenizer_of("<s>", plain=("</s>", "<|im_end|>")), 7) == (7,)
    # the end of a message is not that of the answer
    assert stop_ids(tokenizer_of(*HARMONY, eos="<|return|>"), [FIRST + 2]) == (FIRST + 2,)
    assert stop_ids(tokenizer_of("<|end|>", "<|user|>"), 5) == (5, FIRST)
    assert stop_ids(make_tokenizer(), EOS_ID) == (EOS_ID,)


@pytest.mark.parametrize("stop", [-1, 2**31, [7, 10**30], True, 7.0, "</s>"])
def test_what_is_no_token_is_named(stop: Any) -> None:
    with pytest.raises(UserError, match="eos_token_id is"):
        stop_ids(make_tokenizer(), stop)
