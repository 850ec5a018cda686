"""A model of Qwen2.5's shape with random weights, and a tokenizer of its kind, of our own making.

    python bench/qwen.py FOLDER [0.5b | 1.5b | tiny]

For what needs the size and the form of a real model but not its knowledge: memory, time, prompts,
adapters, files. `tiny` has the form alone, a vocabulary of 1,024 and 2 blocks. The tokenizer is a
byte-level BPE, trained on a few made-up sums, with Qwen's special tokens and a ChatML template; as
with Qwen2.5, the model's vocabulary is larger than the tokenizer's.
"""

import argparse
from pathlib import Path
from typing import Any

from harness import QWEN, make_model
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, PreTrainedTokenizerFast

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
WORDS = (
    "Please reason step by step, and put your final answer within \\boxed{}. "
    "Each of the friends buys some apples, sells half of them and gives the rest away. "
    "How many apples are left in all? First we add, then we multiply, so the answer is "
)


TINY = {"hidden": 64, "layers": 2, "heads": 4, "intermediate": 128, "vocabulary": 1024}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": TINY | {"initializer_range": 0.2},
    "0.5b": QWEN,
    "1.5b": QWEN | {"hidden": 1536, "layers": 28, "heads": 12, "intermediate": 8960},
}
"""Qwen2.5's own dimensions, from its config.json, with 2 key-value heads in each."""


def make_tokenizer() -> Any:
    """A byte-level BPE of 600 tokens, special ones included, at most."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600 - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS] * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in SPECIAL])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
    )
    fast.chat_template = CHATML
    return fast


def make_qwen(folder: Path, size: str = "tiny", *, dtype: str = "float32") -> Path:
    """Model and tokenizer in Hugging Face layout. Responses end at either special token that
    Qwen2.5's do."""
    tokenizer = make_tokenizer()
    end, pad = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    more = {"tokenizer": tokenizer, "eos_token_id": end, "pad_token_id": pad}
    make_model(folder, "torch", dtype=dtype, **more, **SIZES[size])
    GenerationConfig(eos_token_id=[end, pad], pad_token_id=pad).save_pretrained(folder)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("size", nargs="?", choices=SIZES, default="0.5b")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    options = parser.parse_args()
    print(make_qwen(options.folder, options.size, dtype=options.dtype))


if __name__ == "__main__":
    main()
