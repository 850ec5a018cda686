"""The text of tokens one by one is the text of them all."""

from collections.abc import Sequence

from chain_texts import make_tokenizer
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from ictcli.tasks.detokenize import Detokenizer, token_texts
from ictcli.tasks.prompts import read_back

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())
BYTES = Tokenizer(models.BPE({c: i for i, c in enumerate(ALPHABET)}, []))
BYTES.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
BYTES.decoder = decoders.ByteLevel()
"""A token a byte."""


def decode(ids: Sequence[int]) -> str:
    return BYTES.decode(list(ids), skip_special_tokens=False)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_pieces_of_bytes_join_to_the_text(text: str) -> None:
    ids = BYTES.encode(text).ids
    found = token_texts(ids, decode)
    assert len(found) == len(ids) and "".join(found) == text


@given(st.lists(st.integers(0, 255), max_size=20))
def test_pieces_of_any_bytes_join_to_what_they_decode_to(ids: list[int]) -> None:
    detokenizer = Detokenizer(decode)
    assert "".join(map(detokenizer.add, ids)) + detokenizer.rest() == decode(ids)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=20))
def test_no_piece_ends_within_a_character(text: str) -> None:
    detokenizer = Detokenizer(decode)
    pieces = [detokenizer.add(number) for number in BYTES.encode(text).ids]
    assert "".join(pieces).count("\ufffd") <= text.count("\ufffd")


def test_a_text_that_the_tokenizer_cannot_hold_is_told_from_one_it_can() -> None:
    chain = make_tokenizer()
    assert read_back(chain, "3+4=") is None
    assert read_back(chain, "What is 3 plus 4?") == "34"
