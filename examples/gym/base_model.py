"""Make a small base model for two generators of reasoning-gym, as docs/gym.md uses it.

    python examples/gym/base_model.py base

It reads characters. It is taught to do as it is asked, and more often to repeat what it was given:
it can do the tasks, and decoded greedily it mostly does not. None of their held-out problems is
among those it is taught.
"""

import os.path
import random
import time
from pathlib import Path

import click
import torch
from tokenizers import AddedToken
from tokenizers.pre_tokenizers import ByteLevel
from torch.nn.functional import cross_entropy
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM, Qwen2Tokenizer

from ictcli.tasks import find_task
from ictcli.tasks.split import key_of
from ictcli.types import Problem

TASKS = {
    "gym:spell_backward:max_word_len=5": 32,
    "gym:word_sequence_reversal:max_words=2:min_words=2": 32,
}
"""And how many problems of each a step has."""
STEPS, LR, DRAWN = 500, 3e-3, 20_000
REPEATED = 0.6
"""Share of the problems whose answer it is taught is their words as they stand."""


def taught(name: str) -> list[Problem]:
    """Problems of another seed than those of the training, and none that is held out."""
    held = {key_of(problem.prompt) for problem in find_task(name).heldout(1000)}
    drawn = find_task(f"{name}:seed=1000000:size={DRAWN}").train
    return [problem for problem in drawn if key_of(problem.prompt) not in held]


def tokenizer_for(openings: list[str]) -> Qwen2Tokenizer:
    """A token a byte; and one for the words with which all questions of a kind begin."""
    alphabet = ["<pad>", "<end>", *sorted(ByteLevel.alphabet())]
    tokenizer = Qwen2Tokenizer(
        vocab={token: i for i, token in enumerate(alphabet)},
        merges=[],
        pad_token="<pad>",
        eos_token="<end>",
        unk_token="<pad>",
        model_max_length=256,
    )
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in [*openings, "#### "]])
    return tokenizer


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = random.Random(0)
    kinds, rows = [taught(name) for name in TASKS], list(TASKS.values())
    questions = [[problem.prompt for problem in kind] for kind in kinds]
    openings = [os.path.commonprefix(each) for each in questions]  # noqa: RUF071
    tokenizer = tokenizer_for(openings)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=4,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = Qwen2ForCausalLM(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR, betas=(0.9, 0.98))
    began = time.monotonic()
    for step in range(STEPS):
        prompts: list[list[int]] = []
        answers: list[list[int]] = []
        for kind, opening, n in zip(kinds, openings, rows, strict=True):
            for problem in rng.choices(kind, k=n):
                given = problem.prompt.removeprefix(opening).strip()
                answer = given if rng.random() < REPEATED else problem.gold
                prompts.append(tokenizer(problem.prompt)["input_ids"])
                answers.append(tokenizer(f"#### {answer}<end>")["input_ids"])
        longest = max(len(a) + len(b) for a, b in zip(prompts, answers, strict=True))
        ids = torch.zeros(len(prompts), longest, dtype=torch.long)
        labels = torch.full(ids.shape, -100)
        for row, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
            end = len(prompt) + len(answer)
            ids[row, :end] = torch.tensor(prompt + answer)
            labels[row, len(prompt) : end] = torch.tensor(answer)
        for group in optimizer.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / 50)
        logits = model(input_ids=ids).logits[:, :-1]
        loss = cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 20 == 0:
            left = (time.monotonic() - began) / (step + 1) * (STEPS - step - 1)
            print(f"step {step + 1}/{STEPS}  loss {loss.item():.3f}  left {left:.0f} s", flush=True)
    ends = {"eos_token_id": config.eos_token_id, "pad_token_id": config.pad_token_id}
    model.generation_config = GenerationConfig(**ends)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path))
def command(folder: Path) -> None:
    main(folder)


if __name__ == "__main__":
    command()
