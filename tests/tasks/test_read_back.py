"""Texts that a tokenizer cannot hold are told from those that it only normalises."""

from typing import Any

import pytest
from chain_texts import make_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ictcli.tasks.prompts import read_back

LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,?'"


def byte_level() -> Any:
    """As GPT-2's and Qwen's, which normalises to NFC."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({c: i for i, c in enumerate(alphabet)}, []))
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def byte_fallback() -> Any:
    """As Llama's: a space put in front, spaces as their own sign, unknown characters as bytes."""
    names = ["<unk>", *(f"<0x{n:02X}>" for n in range(256)), "\u2581", *LETTERS]
    vocabulary = {name: i for i, name in enumerate(names)}
    model = models.BPE(vocabulary, [], unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


def words() -> Any:
    """As T5's and BERT's: lower case, NFKC, white space lost, what is unknown one token."""
    names = ["<unk>", "\u2581", *LETTERS]
    tokenizer = Tokenizer(models.Unigram([(name, -1.0) for name in names], 0))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


CHAIN, LEVEL, FALLBACK, WORDS = make_tokenizer(), byte_level(), byte_fallback(), words()
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(TEXTS)
def test_a_tokenizer_of_bytes_loses_nothing(text: str) -> None:
    assert read_back(LEVEL, text) is None
    assert read_back(FALLBACK, text) is None


@pytest.mark.parametrize(
    "text",
    ["What is 3\n plus 4?", "\uff12\u00b2 and \ufb01ve", "I\u0307stanbul", "a\u200bb \ufeffc"],
)
@pytest.mark.parametrize("tokenizer", [LEVEL, FALLBACK])
def test_what_is_normalised_is_not_lost(tokenizer: Any, text: str) -> None:
    assert read_back(tokenizer, text) is None


@pytest.mark.parametrize(
    "text", ["What is\n\n3  plus 4?", "\uff12 \ufb01ve", " It's 2\u00b2, isn't it? "]
)
def test_a_tokenizer_of_words_may_fold_case_forms_and_spaces(text: str) -> None:
    assert read_back(WORDS, text) is None


@pytest.mark.parametrize(
    ("tokenizer", "text", "read"),
    [
        (CHAIN, "What is 3 plus 4?", "34"),
        (CHAIN, "3 x 4=", "34="),
        (WORDS, "what is 3+4?", "what is 34?"),
        (WORDS, "\u4e09\u52a0\u56db", ""),
    ],
)
def test_what_is_lost_shows_in_what_is_read(tokenizer: Any, text: str, read: str) -> None:
    left = read_back(tokenizer, text)
    assert left is not None and left.strip() == read


def test_a_text_that_holds_special_tokens_survives() -> None:
    assert read_back(FALLBACK, "what is <unk>?") is None
    assert read_back(CHAIN, "3+4=<pad>") is None
