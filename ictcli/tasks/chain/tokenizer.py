"""The character tokenizer of the task `chain`."""

from transformers import Qwen2Tokenizer

VOCABULARY = ("<pad>", "<unk>", *"0123456789", *"+-*=;#")
"""Every token, in the order of its id."""

PAD_ID = VOCABULARY.index("<pad>")
EOS_ID = VOCABULARY.index("#")


def make_tokenizer() -> Qwen2Tokenizer:
    """One token per character: byte-pair encoding without merges. Other characters are dropped.

    It has the class that transformers gives every model of type qwen2, whatever the folder
    names, so that what is loaded is what was saved.

    `#` ends a response but is no special token here: it is the end token in the model's
    config and generation config only. transformers makes every token that a tokenizer names
    (`eos_token` too) special when it loads it, and `decode(..., skip_special_tokens=True)`
    would drop the `#` that the verifier looks for. An `eos_token` of None has to be said:
    the class would otherwise add one beyond the vocabulary of the model.
    """
    return Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate(VOCABULARY)},
        merges=[],
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token=None,  # pyright: ignore[reportArgumentType]
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_max_length=256,
    )
