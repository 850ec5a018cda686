"""Special tokens and chat templates of prompts, over tokenizers made for it."""

import resource
import signal
from itertools import product
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

from ictcli.errors import UserError
from ictcli.recipe.tables import Example, PromptSettings
from ictcli.tasks import Domain, find_benchmark
from ictcli.tasks.prompts import tokens_of
from ictcli.types import Problem

BOS, EOS = 0, 1
CHAT = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
WORDS = Domain(find_benchmark("chain").domain.verify)


def tokenizer_of(adds: str, *, writes_bos: bool) -> Any:
    """One that puts `adds` around a text and, if it `writes_bos`, BOS before a chat."""
    characters = {chr(code): code - 30 for code in range(32, 127)} | {"\n": 97}
    made = Tokenizer(WordLevel({"<s>": BOS, "</s>": EOS, **characters}, unk_token=" "))
    made.pre_tokenizer = Split("", "isolated")
    if adds:
        around = TemplateProcessing(single=adds, special_tokens=[("<s>", BOS), ("</s>", EOS)])
        made.post_processor = around
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, bos_token="<s>", eos_token="</s>")
    tokenizer.chat_template = "{{ bos_token }}" * writes_bos + CHAT
    return tokenizer


@pytest.mark.parametrize("adds", ["", "<s> $A", "$A </s>", "<s> $A </s>", "<s> <s> $A"])
@pytest.mark.parametrize("template", ["none", "chat", "chat with bos", "Q: {question}"])
def test_a_prompt_begins_with_bos_once_and_ends_with_no_eos(adds: str, template: str) -> None:
    """Whether the tokenizer, the template or the data writes BOS; a chat template alone decides."""
    chat, writes_bos = template.startswith("chat"), template.endswith("bos")
    tokenizer = tokenizer_of(adds, writes_bos=writes_bos)
    for own, asked, system, shots in product(("", "<s>"), ("", "<s>"), ("", "Do."), (0, 2)):
        in_template = template.startswith("Q") and own
        settings = PromptSettings(
            template="chat" if chat else f"{own}{template}" if in_template else template,
            system=system,
            examples=(Example(prompt=f"{asked}a?", response="A"),) * shots,
        )
        text, ids = tokens_of(tokenizer, Problem("1", f"{asked}b?", "B"), WORDS, settings)
        written = writes_bos if chat else bool(asked or in_template)
        bos = written if chat else written or adds.count("<s>")
        assert ids.count(BOS) == bos == ids[:bos].count(BOS)
        assert EOS not in ids
        assert text.count("<s>") == written
        assert tokenizer.decode(ids[bos:], clean_up_tokenization_spaces=False) == " ".join(
            text.removeprefix("<s>")
        )


LOOP = "{% for i in range(99999) %}"
HOSTILE = {
    "System role not supported": "{{ raise_exception('System role not supported') }}",
    "'x' is undefined": "{{ x.y }}",
    "division by zero": "{{ 1 / 0 }}",
    "Unexpected end of template": "{% for m in messages %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "more than 1 s": LOOP * 3 + "{% endfor %}" * 3,
    "more than 1 s.": "{{ 7 ** (10 ** 8) }}",
    "0.1 GiB": "{% set n = namespace(s='a') %}" + LOOP + "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "0.1 GiB of": "{{ 'a' * 10 ** 11 }}",
    "0.1 GiB of memory": "{{ '%99999999999d' % 1 }}",
    "20,000,000 characters": "{{ 'a' * 20000000 }}",
}


@pytest.mark.parametrize("words", HOSTILE)
def test_a_chat_template_that_fails_hangs_or_grows_is_one_sentence(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictcli.tasks.chat_template.SECONDS", 1)
    monkeypatch.setattr("ictcli.tasks.chat_template.MEMORY", 2**30 // 10)
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    tokenizer = tokenizer_of("", writes_bos=False)
    tokenizer.chat_template = HOSTILE[words]
    settings = PromptSettings(template="chat", system="Be brief.")
    with pytest.raises(UserError) as caught:
        tokens_of(tokenizer, Problem("1", "b?", "B"), WORDS, settings)
    assert words in caught.value.message and "\n" not in caught.value.message
    assert "prompt.system=" in caught.value.hint and "prompt.template=none" in caught.value.hint
    assert before == (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF))
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0
