"""The character tokenizer of the task `chain`."""

# pyright: reportUnknownMemberType=false
# tokenizers annotates only a part of its parameters.

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

VOCABULARY = ("<pad>", "<unk>", *"0123456789", *"+-*=;#")
"""Every token, in the order of its id."""

PAD_ID = VOCABULARY.index("<pad>")
EOS_ID = VOCABULARY.index("#")


def make_tokenizer() -> PreTrainedTokenizerFast:
    """One token per character; what is not in the vocabulary becomes `<unk>`.

    `#` ends a response but is no special token here: it is the end token in the model's
    config and generation config only. transformers makes every token that a tokenizer names
    (`eos_token` too) special when it loads it, and `decode(..., skip_special_tokens=True)`
    would drop the `#` that the verifier looks for.
    """
    tokenizer = Tokenizer(
        models.WordLevel({token: i for i, token in enumerate(VOCABULARY)}, unk_token="<unk>")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([AddedToken(t, normalized=False) for t in ("<pad>", "<unk>")])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
