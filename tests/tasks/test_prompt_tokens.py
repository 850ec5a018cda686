"""Prompts and responses as tokens, and back: special tokens, templates, what a tokenizer loses."""

import resource
import signal
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import make_tokenizer
from hypothesis import example, given
from hypothesis import strategies as st
from refusing import refused
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast
from written import numbered, write

from ictcli.recipe import load_recipe
from ictcli.recipe.data import ColumnSettings, Example, HubSettings, PromptSettings
from ictcli.tasks import Domain, find_benchmark
from ictcli.tasks.detokenize import Detokenizer, token_texts
from ictcli.tasks.prepare import task_of
from ictcli.tasks.prompts import all_tokens, tokens_of
from ictcli.tasks.sft import read_examples, response_ids
from ictcli.tasks.unread import lost_of
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
        problem = Problem("1", f"{asked}b?", "B")
        text, ids = tokens_of(tokenizer, problem, WORDS, settings)
        assert list(all_tokens(tokenizer, [problem] * 2, WORDS, settings)) == [ids] * 2
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
    "Unexpected end of template": "{% for m in messages %}",
    "recursion": "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "more than 0.2 s": LOOP * 3 + "{% endfor %}" * 3,
    "more than 0.2 s.": "{{ 7 ** (10 ** 8) }}",
    "0.1 GiB": "{% set n = namespace(s='a') %}" + LOOP + "{% set n.s = n.s ~ n.s %}{% endfor %}",
    "0.1 GiB of memory": "{{ '%99999999999d' % 1 }}",
    "20,000,000 characters": "{{ 'a' * 20000000 }}",
    "it renders no text": "{# a comment #}",
}


@pytest.mark.parametrize("words", HOSTILE)
def test_a_chat_template_that_fails_hangs_or_grows_is_one_sentence(
    words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ictcli.tasks.chats.SECONDS", 0.2 if "0.2 s" in words else 5)
    monkeypatch.setattr("ictcli.tasks.chats.MEMORY", 2**30 // 10)
    before = resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF)
    tokenizer = tokenizer_of("", writes_bos=False)
    tokenizer.chat_template = HOSTILE[words]
    settings = PromptSettings(template="chat", system="Be brief.")
    with refused(words, hint="prompt.template=none") as caught:
        tokens_of(tokenizer, Problem("1", "b?", "B"), WORDS, settings)
    assert "prompt.system=" in caught.value.hint
    assert before == (resource.getrlimit(resource.RLIMIT_AS), signal.getsignal(signal.SIGPROF))
    assert signal.getitimer(signal.ITIMER_PROF)[0] == 0


def test_all_conversations_of_a_template_share_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one which takes a bit less than the limit each time is refused, too."""
    monkeypatch.setattr("ictcli.tasks.chats.SECONDS", 0.3)
    tokenizer = tokenizer_of("", writes_bos=False)
    problems, settings = [Problem("1", "b?", "B")] * 1000, PromptSettings(template="chat")
    assert len(list(all_tokens(tokenizer, problems, WORDS, settings))) == 1000
    tokenizer.chat_template = "{% for i in range(9) %}{% for j in range(99999) %}" + (
        "{% endfor %}{% endfor %}{{ messages[0].content }}"
    )
    with refused("more than 0.3 s"):
        list(all_tokens(tokenizer, problems[:30], WORDS, settings))


LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?'"


def byte_level() -> Any:
    """As GPT-2's and Qwen's, which normalises to NFC."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def words() -> Any:
    """As T5's and BERT's: lower case, NFKC, white space lost, what is unknown one token."""
    names = ["<unk>", "\u2581", *LETTERS]
    tokenizer = Tokenizer(models.Unigram([(name, -1.0) for name in names], 0))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


CHAIN, LEVEL, BY_WORDS = make_tokenizer(), byte_level(), words()
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(TEXTS)
@example("\uff12\u00b2 and \ufb01ve")
@example("I\u0307stanbul")
@example("a\u200bb \ufeffc")
@example("what is <unk>?")
def test_a_tokenizer_of_bytes_loses_nothing(text: str) -> None:
    assert not lost_of(LEVEL, [text])


@pytest.mark.parametrize(
    ("tokenizer", "text", "read"),
    [
        (CHAIN, "What is 3 plus 4?", "34"),
        (CHAIN, "3 x 4=", "34="),
        (CHAIN, "3+4=<pad>", None),
        (BY_WORDS, "what is 3+4?", "what is 34?"),
        (BY_WORDS, "\u4e09\u52a0\u56db", ""),
        # case, forms and spaces may be folded
        (BY_WORDS, "What is\n\n3  plus 4?", None),
        (BY_WORDS, "\uff12 \ufb01ve", None),
        (BY_WORDS, " It's 2\u00b2, isn't it? ", None),
    ],
)
def test_what_is_lost_shows_in_what_is_read(tokenizer: Any, text: str, read: str | None) -> None:
    lost = lost_of(tokenizer, [text])
    assert [left.strip() for _, left in lost] == ([] if read is None else [read])


def decode(ids: Sequence[int]) -> str:
    return LEVEL.decode(list(ids), skip_special_tokens=False)


@given(
    TEXTS.map(lambda text: LEVEL(text)["input_ids"]) | st.lists(st.integers(0, 255), max_size=20)
)
def test_pieces_of_any_bytes_join_to_what_they_decode_to_and_none_ends_within_a_character(
    ids: list[int],
) -> None:
    found, whole = token_texts(ids, decode), decode(ids)
    assert len(found) == len(ids) and "".join(found) == whole
    held = "".join(map(Detokenizer(decode).add, ids))
    assert held.count("\ufffd") <= whole.count("\ufffd")


# Examples of supervised steps

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


@pytest.mark.parametrize("data", [None, "task"])
@pytest.mark.parametrize("pattern", [None, r"^(\d+)$", r"Answer: *(.+)"])
def test_an_answer_made_an_example_is_read_as_right(
    tmp_path: Path, pattern: str | None, data: str | None
) -> None:
    path = write(tmp_path, numbered(map("{}+1=".format, range(99))))
    read = [f"reward.pattern={pattern}"] if pattern else []
    task = task_of(load_recipe("chain", [f"task={path}", f"sft.data={data or path}", *read]))
    problems = {problem.prompt: problem for problem in task.train}
    asked = [problems[example.prompt] for example in task.sft]
    verdicts = task.domain.judge(asked, [example.solution for example in task.sft])
    assert len(verdicts) > 9 and {verdict.status for verdict in verdicts} == {"correct"}


CLOSES = "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>\n{% endfor %}"
OPENS = "{% if add_generation_prompt %}[assistant]{% endif %}"
TEMPLATES = {"": "\n4", CLOSES + OPENS: "4", "{{ messages[0].content }}": "4"}


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_response_ends_once_and_stands_where_the_template_has_it(template: str) -> None:
    tokenizer: Any = tokenizer_of("", writes_bos=False)
    tokenizer.chat_template = template or None
    engine: Any = SimpleNamespace(tokenizer=tokenizer, stop_ids=(EOS,))
    example = Problem("1", "2+2?", "", solution="4")
    (ids,) = response_ids(engine, [example], WORDS, PromptSettings())
    assert ids.count(EOS) == 1 and ids[-1] == EOS
    assert tokenizer.decode(ids[:-1]).replace(" ", "") == TEMPLATES[template]
    if OPENS in template:  # together they are the conversation in the template, to its end
        whole = tokenizer.apply_chat_template(
            [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}],
            tokenize=False,
        )
        both = [*tokens_of(tokenizer, example, WORDS, PromptSettings())[1], *ids]
        expected = tokenizer(str(whole), add_special_tokens=False)["input_ids"]
        assert both == list(expected)[: len(both)]
