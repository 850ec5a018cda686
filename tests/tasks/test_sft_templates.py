"""Supervised examples in the forms of chat templates there are: what is trained stands behind the
prompt as the template itself would have written it."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ictcli.recipe.data import PromptSettings
from ictcli.rewards import find_verifier
from ictcli.tasks import Domain
from ictcli.tasks.prompts import tokens_of
from ictcli.tasks.sft import response_ids
from ictcli.types import Problem

END, WORDS = "<|end|>", Domain(find_verifier("math"))
THOUGHT, CLOSED = "<think>\nso\n</think>\n\n12", "\n</think>\n\n12"
DROPS = "{{ m.content.split('</think>')[-1] }}"
PARTS = """
{%- set own = m.content.split('</think>')[0].split('<think>')[-1].strip('\\n')
    if '</think>' in m.content else '' -%}
{{ '<think>\\n' + own + '\\n</think>\\n\\n' + m.content.split('</think>')[-1].lstrip('\\n') }}"""
GEMMA = """
{%- for part in m.content.split('<channel|>') -%}{{ part.split('<|channel>')[0] | trim }}
{%- endfor -%}"""

FORMS: dict[str, tuple[str, str, str, str]] = {
    "ChatML": ("<a>\n", "{{ m.content }}", "12", THOUGHT),
    "Llama 3, Gemma": ("<a>\n\n", "{{ m.content | trim }}", "12", THOUGHT),
    "Qwen3": ("<a>\n", PARTS, "<think>" + "\n" + CLOSED, THOUGHT),
    "Qwen3-Thinking": ("<a>\n<think>\n", PARTS, CLOSED, "so\n</think>\n\n12"),
    "R1": ("<a>\n<think>\n", DROPS, CLOSED, "so\n</think>\n\n12"),
    "QwQ": ("<a>\n<think>\n", DROPS.replace(" }}", ".lstrip() }}"), CLOSED, "so\n</think>\n\n12"),
    "DeepSeek-V3.1": ("<a>\n</think>", f"</think>{DROPS}", "12", "12"),
    "Gemma 4": ("<a>\n<|channel>thought\n<channel|>", GEMMA, "12", THOUGHT),
    "none of the answer": ("<a>\n", "", "12", THOUGHT),
}
"""The prompt's end, how an assistant's message is written, and what is trained of an answer and of
one with a thought."""


def tokenizer_of(template: str, *, spaced: bool = False) -> Any:
    """Of bytes; `spaced` puts a space before each text, as Llama 2's."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE({c: i for i, c in enumerate(letters)}, []))
    if spaced:
        made.normalizer = normalizers.Prepend(" ")
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([END])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, chat_template=template)


def template_of(begins: str, answer: str) -> str:
    return (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<a>\\n' }}"
        + f"{answer}{END}\n{{% else %}}<{{{{ m.role }}}}>{{{{ m.content }}}}{{% endif %}}"
        + f"{{% endfor %}}{{% if add_generation_prompt %}}{{{{ {begins!r} }}}}{{% endif %}}"
    )


def trained(tokenizer: Any, response: str, question: str = "3*4?", system: str = "") -> list[str]:
    """The prompt and what is trained behind it, as text."""
    engine: Any = SimpleNamespace(tokenizer=tokenizer, stop_ids=(tokenizer.eos_token_id,))
    example, settings = Problem("1", question, "", solution=response), PromptSettings(system=system)
    prompt, ids = tokens_of(tokenizer, example, WORDS, settings)
    (found,) = response_ids(engine, [example], WORDS, settings)
    assert found.count(tokenizer.eos_token_id) == 1 and found[-1] == tokenizer.eos_token_id
    both = tokenizer.decode([*ids, *found], clean_up_tokenization_spaces=False)
    assert both.strip().startswith(prompt)
    return [prompt, both.strip().removeprefix(prompt)]


@pytest.mark.parametrize("form", FORMS)
def test_what_is_trained_goes_on_from_the_prompt_as_the_template_has_it(form: str) -> None:
    begins, answer, plain, thought = FORMS[form]
    tokenizer = tokenizer_of(template_of(begins, answer))
    for system in ("", "Be brief."):
        assert trained(tokenizer, "12", system=system)[1] == plain + END
        if thought:
            assert trained(tokenizer, THOUGHT, system=system)[1] == thought + END


TEXT = st.text("<think>/a1 \n", min_size=1, max_size=12).filter(str.strip)


@given(TEXT, TEXT)
def test_of_a_template_that_keeps_all_it_is_the_closed_conversation_whatever_is_said(
    question: str, response: str
) -> None:
    tokenizer = tokenizer_of(template_of("<a>\n", "{{ m.content }}"))
    prompt, found = trained(tokenizer, response, question)
    assert (prompt, found) == (f"<user>{question}<a>\n", f"{response}{END}")


SHIFTED = """
{%- for m in messages %}{% if m.role == 'user' %}[INST]
{%- if loop.last and messages[0].role == 'system' %} {{ messages[0].content }}{% endif %}
{{- ' ' + m.content }}[/INST]{% elif m.role == 'assistant' %} {{ m.content }}<|end|>{% endif %}
{%- endfor %}"""


def test_a_template_that_writes_the_question_otherwise_before_an_answer_trains_the_answer() -> None:
    """Mistral's puts the system message into the last turn of the user, if that is the last of all:
    what is trained holds no question."""
    tokenizer = tokenizer_of(SHIFTED)
    assert trained(tokenizer, "12") == ["[INST] 3*4?[/INST]", f" 12{END}"]
    shifted = trained(tokenizer, "12", system="Be brief.")
    assert shifted == ["[INST] Be brief. 3*4?[/INST]", f"12{END}"]


def test_tokens_are_those_of_one_text_where_the_tokenizer_puts_a_space_before_each() -> None:
    tokenizer = tokenizer_of(SHIFTED, spaced=True)
    assert trained(tokenizer, "12") == ["[INST] 3*4?[/INST]", f" 12{END}"]
