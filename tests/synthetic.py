"""A run folder with rollouts that nobody sampled: hostile, wide and odd tokens, and statistics
drawn at random."""

from pathlib import Path

import numpy as np
from tokenizers import Tokenizer, decoders, models

from ictcli.recipe import Recipe, load_recipe
from ictcli.rewards import Verdict
from ictcli.runs import Run
from ictcli.runs.rollouts import Batch
from ictcli.train.step import select
from ictcli.types import Problem, Rollouts

HOSTILE = "</script><img src=x onerror=alert(1)>"
WORDS = (
    *(HOSTILE, " the", " answer", " is", " 4", " 漢字", " 🙂", "\n", "\x1b[31m", "\u2028"),
    *(" we", "\t", " e\u0301", "\u202e", " \\boxed{4}", " &amp;", "<b>", "<!--", " ", "']\"\\"),
)
QUESTION = f"What is 2+2?\n{HOSTILE}<script>alert(3)</script>\u202e 漢字"
PROMPTS, GROUP = 3, 4


def batch_of(seed: int, *, longest: int = 60, uniqueness: bool = True) -> Batch:
    """Random tokens and statistics; every third response is right."""
    rng = np.random.default_rng(seed)
    B = PROMPTS * GROUP
    lengths = rng.integers(longest // 2, longest + 1, B).astype(np.int32)
    valid = np.arange(longest) < lengths[:, None]
    tokens = np.where(valid, rng.integers(0, len(WORDS), valid.shape), 0).astype(np.int32)

    def masked(values: np.ndarray) -> np.ndarray:
        return np.where(valid, values, 0).astype(np.float32)

    stats = {
        "entropy": masked(rng.gamma(1, 0.5, valid.shape)),
        "purity": masked(rng.uniform(0.05, 1, valid.shape)),
        "prob": masked(rng.uniform(0, 1, valid.shape) ** 4),
    }
    if uniqueness:
        u = rng.beta(0.4, 3, valid.shape) * 0.5 * (rng.random(valid.shape) < 0.8)
        stats["uniqueness"] = masked(u)
    rollouts = Rollouts(
        prompts=((1, 2),) * PROMPTS,
        group=GROUP,
        tokens=tokens,
        lengths=lengths,
        finished=lengths < longest,
        logp=masked(np.log(rng.uniform(0.01, 1, valid.shape))),
        stats=stats,
    )
    right = np.arange(B) % 3 == 0
    texts = ["".join(WORDS[i] for i in tokens[row, : lengths[row]]) for row in range(B)]
    verdicts = [
        Verdict("correct", "4") if yes else Verdict("wrong", HOSTILE, "no \u2028 box")
        for yes in right
    ]
    problems = [Problem(str(number), QUESTION, "4") for number in range(PROMPTS)]
    advantage = np.where(right, 1.5, -0.5)
    return Batch(problems, rollouts, texts, verdicts, right.astype(float), advantage)


def recipe_of(*overrides: str) -> Recipe:
    sizes = (f"prompts={PROMPTS}", f"group={GROUP}", "warmup=0", "steps=30")
    return load_recipe("chain", [*sizes, *overrides])


def record(
    folder: Path,
    *overrides: str,
    steps: tuple[int, ...] = (10, 20),
    longest: int = 60,
    uniqueness: bool = True,
) -> Path:
    """A run folder with recorded steps and a tokenizer, without weights."""
    recipe = recipe_of(*overrides)
    with Run.create(folder, recipe) as run:
        for step in steps:
            batch = batch_of(step, longest=longest, uniqueness=uniqueness)
            selection = select(recipe, batch, step)
            run.record_rollouts(step, batch, selection.kept, selection.weights)
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, " the"))
    tokenizer.decoder = decoders.Fuse()
    (folder / "model").mkdir()
    tokenizer.save(str(folder / "model" / "tokenizer.json"))
    return folder
