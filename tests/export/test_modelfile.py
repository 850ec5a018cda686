"""Ollama's Modelfile: its template writes what the tokenizer's does, as far as that can be said."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from jinja2 import Environment
from tokenizers import Tokenizer as Tokenizers
from tokenizers import models, pre_tokenizers, processors
from transformers import AutoTokenizer

from ictcli.evaluation.settings import EvaluationSettings
from ictcli.export.card import Asked, asked_by
from ictcli.export.modelfile import LEFT_OUT, modelfile, write_modelfile
from ictcli.recipe.data import Example, PromptSettings
from ictcli.rewards import find_verifier
from ictcli.tasks import Domain
from ictcli.tasks.prompts import tokens_of
from ictcli.types import Problem

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "qwen2.5": "{% if messages[0].role != 'system' %}<|im_start|>system\nBe {{ '{{' }}kind"
    "<|im_end|>\n{% endif %}" + CHATML,
    "llama3": "{% for m in messages %}{% if loop.first %}<bos>{% endif %}"
    "<|h|>{{ m.role }}<|/h|>\n\n{{ m.content | trim }}<|eot|>{% endfor %}<|h|>assistant<|/h|>\n\n",
    "gemma": "<bos>{% for m in messages %}{% if m.role == 'system' %}{{ no_system() }}{% endif %}"
    "<turn>{{ 'model' if m.role == 'assistant' else m.role }}\n{{ m.content }}</turn>\n{% endfor %}"
    "<turn>model\n",
    "thinking": CHATML + "<think>\n",
}
"""Of the families of chat models, in short."""


class Tokenizer(SimpleNamespace):
    """A chat template, and what its author's library does with it."""

    chat_template: str | None
    bos_token = "<bos>"

    def apply_chat_template(self, messages: Any, **options: Any) -> str:
        environment = Environment(keep_trailing_newline=True)
        options = {"messages": messages, "add_generation_prompt": options["add_generation_prompt"]}
        return environment.from_string(self.chat_template or "").render(**options)


def written(template: str | None, **prompt: Any) -> tuple[str, str]:
    settings = EvaluationSettings(prompt=PromptSettings(**prompt), temperature=0.6, max_tokens=99)
    asked = Asked(settings, Domain(find_verifier("math"), "In a box."), "1+1")
    return modelfile(Tokenizer(chat_template=template), asked, ["<|im_end|>", "\n"], 4096)


def go(template: str, messages: list[dict[str, str]], system: str = "") -> str:
    """What Go's text/template makes of the part of its language that is used, by Jinja's."""
    words = {
        "{{ if .System }}": "{% if System %}",
        "{{ .System }}": "{{ System }}",
        "{{ range $i, $_ := .Messages }}": "{% for m in Messages %}",
        '{{ if eq .Role "user" }}': "{% if m.role == 'user' %}",
        '{{ else if eq .Role "assistant" }}': "{% elif m.role == 'assistant' %}",
        "{{ if eq (len (slice $.Messages $i)) 1 }}": "{% if loop.last %}",
        "{{ .Content }}": "{{ m.content }}",
        "{{ .Prompt }}": "{{ Prompt }}",
        "{{ else }}": "{% else %}",
    }
    for ours, theirs in words.items():
        template = template.replace(ours, theirs)
    if template.endswith("{{ end }}"):
        template = template.removesuffix("{{ end }}") + "{% endfor %}"
    template = template.replace("{{ end }}", "{% endif %}")
    environment = Environment(keep_trailing_newline=True)
    values = {"Messages": messages, "System": system, "Prompt": messages[-1]["content"]}
    return environment.from_string(template).render(**values)


def template_in(text: str) -> str:
    (template,) = re.findall(r'^TEMPLATE """(.*?)"""$', text, re.M | re.S)
    return template


@pytest.mark.parametrize("family", TEMPLATES)
def test_the_template_writes_what_the_tokenizer_s_writes(family: str) -> None:
    """With the suffix under every question, and without the token that llama.cpp puts first."""
    text, note = written(TEMPLATES[family])
    assert not note
    turns = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d"), ("user", "e")]
    for count in (1, 3, 5):
        for system in ("", "Be brief.") if family != "gemma" else ("",):
            said = [{"role": role, "content": words} for role, words in turns[:count]]
            first = [{"role": "system", "content": system}] if system else []
            suffixed = [m | {"content": m["content"] + "\nIn a box."} for m in said[::2]]
            asked = [suffixed[i // 2] if i % 2 == 0 else m for i, m in enumerate(said)]
            tokenizer = Tokenizer(chat_template=TEMPLATES[family])
            whole = tokenizer.apply_chat_template([*first, *asked], add_generation_prompt=True)
            assert go(template_in(text), [*first, *said], system) == whole.removeprefix("<bos>")


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ loop.index }}: {{ m.content }}{% endfor %}",
        "{{ messages[-1].content }}",
        CHATML + "{{ strftime_now('%d') }}",
        '"""' + CHATML,
    ],
)
def test_what_cannot_be_written_is_left_out_and_said(template: str) -> None:
    text, note = written(template, system="Be brief.")
    assert (
        note == LEFT_OUT.format("TEMPLATE")
        and "TEMPLATE" not in text
        and 'SYSTEM """Be brief."""' in text
    )


def test_a_text_that_would_end_its_block_is_left_out_alone_and_said() -> None:
    text, note = written(CHATML, system='Say """hi""".')
    assert "no SYSTEM" in note and "SYSTEM" not in text and "TEMPLATE" in text


def test_a_chat_has_its_system_message_examples_sampling_and_stops() -> None:
    examples = (Example(prompt="2+2", response="4"),)
    text, _ = written(CHATML, system="Be brief.", examples=examples)
    for line in (
        'SYSTEM """Be brief."""',
        'MESSAGE user """2+2"""\nMESSAGE assistant """4"""',
        "PARAMETER temperature 0.6",
        "PARAMETER num_predict 99",
        'PARAMETER stop "<|im_end|>"',
    ):
        assert line in text
    assert text.startswith("FROM .\n") and text.count("PARAMETER stop") == 1


def test_without_a_chat_template_the_prompt_is_text_around_the_question() -> None:
    text, _ = written(None, system="Be {{brief}}.", examples=(Example(prompt="2", response="4"),))
    said = go(template_in(text), [{"role": "user", "content": "3"}])
    assert said == "Be {{brief}}.\n2\nIn a box.\n4\n\n3\nIn a box." and "SYSTEM" not in text


BOS = "<bos>"


@pytest.mark.parametrize("template", [None, "plain", "with"])
@pytest.mark.parametrize("named", [None, True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_ollama_s_prompt_has_the_tokens_of_the_run_s(
    tmp_path: Path, template: str | None, named: bool | None, adds: bool
) -> None:
    """It puts the beginning-of-text token before a text where tokenizer_config.json says
    `add_bos_token`, and nowhere else (convert/tokenizer.go); the tokenizer itself by its
    post-processor, and a chat template by its text."""
    vocabulary = {BOS: 0, "?": 1} | {chr(code): code for code in range(2, 127)}
    made = Tokenizers(models.WordLevel(vocabulary, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    made.add_special_tokens([BOS])
    if adds:
        made.post_processor = processors.TemplateProcessing(f"{BOS} $A", None, [(BOS, 0)])
    made.save(str(tmp_path / "tokenizer.json"))
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": BOS}
    about |= {} if named is None else {"add_bos_token": named}
    chat = {"plain": CHATML, "with": BOS + CHATML}
    about |= {"chat_template": chat[template]} if template else {}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(about))
    (tmp_path / "recipe.toml").write_text("=")  # so it is asked as in mathematics
    assert not write_modelfile(tmp_path, tmp_path)
    asked = asked_by(tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    text = template_in((tmp_path / "Modelfile").read_text())
    said = go(text, [{"role": "user", "content": "1+1"}])
    says = json.loads((tmp_path / "tokenizer_config.json").read_text()).get("add_bos_token")
    ids = tokenizer(BOS + said if says else said, add_special_tokens=False)["input_ids"]
    problem = Problem("shown", "1+1", "")
    assert ids == tokens_of(tokenizer, problem, asked.domain, asked.settings.prompt)[1]
    assert ids.count(0) <= 1
