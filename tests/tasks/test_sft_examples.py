"""Examples for supervised steps: which response a row gives, and how it becomes tokens."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusing import refused
from test_prompt_tokens import EOS, tokenizer_of
from written import write

from ictcli.recipe.data import ColumnSettings, HubSettings, PromptSettings
from ictcli.tasks import Domain, find_benchmark
from ictcli.tasks.prompts import tokens_of
from ictcli.tasks.sft import read_examples, response_ids
from ictcli.types import Problem

SAID = [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "It is 4."}]
LIST = "(A) 3\n(B) 4"
ROWS: dict[str, tuple[dict[str, Any], str, str]] = {
    "completion": ({"prompt": "2+2?", "completion": "It is 4."}, "2+2?", "It is 4."),
    "messages": ({"messages": SAID, "gold": "4"}, "2+2?", "It is 4."),
    "solution": ({"question": "2+2?", "solution": "4, I think", "gold": "4"}, "2+2?", "4, I think"),
    "answer": ({"question": "2+2?", "answer": "4"}, "2+2?", "The answer is \\boxed{4}."),
    "choices": (
        {"question": "2+2?", "choices": ["3", "4"], "answer": "B"},
        f"2+2?\n{LIST}",
        "The answer is \\boxed{B}.",
    ),
}


@pytest.mark.parametrize("form", ROWS)
def test_the_response_is_as_it_is_written_or_the_answer_in_a_box(tmp_path: Path, form: str) -> None:
    row, prompt, response = ROWS[form]
    (example,), notes = read_examples(write(tmp_path, [row]), ColumnSettings(), HubSettings())
    assert (example.prompt, example.solution, notes) == (prompt, response, ())


CLOSES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}[assistant]{% endif %}"
TEMPLATES = {"": "\n4", CLOSES + OPENS: "4", "{{ messages[0].content }}": "4"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_response_ends_once_and_stands_where_the_template_has_it(template: str) -> None:
    tokenizer: Any = tokenizer_of("", writes_bos=False)
    tokenizer.chat_template = template or None
    engine: Any = SimpleNamespace(tokenizer=tokenizer, stop_ids=(EOS,))
    domain = Domain(find_benchmark("chain").domain.verify)
    example = Problem("1", "2+2?", "", solution="4")
    (ids,) = response_ids(engine, [example], domain, PromptSettings())
    assert ids.count(EOS) == 1 and ids[-1] == EOS
    assert tokenizer.decode(ids[:-1]).replace(" ", "") == TEMPLATES[template]
    if OPENS in template:  # together they are the conversation in the template, to its end
        whole = tokenizer.apply_chat_template(
            [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
            tokenize=False,
        )
        both = [*tokens_of(tokenizer, example, domain, PromptSettings())[1], *ids]
        expected = tokenizer(str(whole), add_special_tokens=False)["input_ids"]
        assert both == list(expected)[: len(both)]


def test_hints_name_the_keys_of_the_examples(tmp_path: Path) -> None:
    name = write(tmp_path, [{"prompt": "2+2?", "response": ""}])
    with refused("no response", hint="sft.columns.response="):
        read_examples(name, ColumnSettings(), HubSettings())
