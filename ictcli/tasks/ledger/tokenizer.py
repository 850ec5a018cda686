"""The word tokenizer of the task `ledger`."""

import re
from collections.abc import Iterator

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ictcli.tasks.ledger.words import (
    DAYS,
    ECHOES,
    JOINTS,
    NAMES,
    NUMBERS,
    OPENERS,
    PHRASES,
    SETTINGS,
    TRADES,
)

PIECE = re.compile(r" ?[A-Za-z]+| ?\d|#+|\n|.")
"""A word with the space before it, a digit, a line's end or a sign: what one token holds."""
_FRAME = (
    "\nSay begins on. for day days also, it is and How many past full weeks is that? Begin on or "
    "\nFrom to\n#### 0 1 2 3 4 5 6"
)


def _vocabulary() -> Iterator[str]:
    yield from ("<pad>", "<unk>", "<end>")
    texts = [*NAMES, *(f" {name}" for name in NAMES), *OPENERS, _FRAME]
    texts += [f" {word}" for word in (*DAYS, *NUMBERS, *JOINTS, *TRADES)]
    texts += [f" {good}" for goods in TRADES.values() for good in goods]
    for part in (part for phrase in PHRASES for part in phrase):
        texts += [part] if isinstance(part, str) else [f" {word}" for word in part]
    texts += [echo.format(day=DAYS[0]) for echo in ECHOES]
    texts += [setting.ask for setting in SETTINGS.values()]
    for text in texts:
        yield from PIECE.findall(text)


VOCABULARY = tuple(piece for piece in dict.fromkeys(_vocabulary()) if piece != " ")
"""Every token, in the order of its id."""

PAD_ID, END_ID = VOCABULARY.index("<pad>"), VOCABULARY.index("<end>")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per word and sign: a word has the space before it, so that texts are tokens joined.
    Any other word is `<unk>`. `<end>` ends a response and is no part of its text."""
    tokenizer = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PIECE.pattern), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<end>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=512,
    )
