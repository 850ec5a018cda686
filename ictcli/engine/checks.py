"""What every engine has to show before anything depends on it."""

from collections.abc import Sequence

import numpy as np

from ictcli.engine.protocol import Engine
from ictcli.errors import UserError
from ictcli.types import LOGP, Sampling

FLOAT32_GAP, ROUNDED_GAP = 0.01, 0.5
"""Mean |log p| a token that sampling and evaluation may differ by in a row, in float32 and in 16
bits: far above what rounding makes, and below what a lost prefix does."""
TOKENS = 4
"""Tokens that are sampled to see."""


def check_sampling(engine: Engine, name: str, model: str) -> None:
    """Refuse a model that samples from another distribution than it evaluates: some do not know
    the engine's kind of cache, or padding, and say nothing. A few made-up tokens show it, after
    prompts long enough to be shared."""
    _check(engine, name, model, (1, 2, 3, 1, 2, 3), TOKENS)


def check_lengths(engine: Engine, model: str, longest: int) -> None:
    """The same across each length at which the model's arithmetic changes, where the `longest`
    sequence of a run, in tokens, is longer."""
    name, longest = str(engine.describe().get("engine")), min(longest, engine.context)
    for length in engine.lengths.changes:
        if length < longest:
            prompt = np.random.default_rng(0).integers(1, 4, max(length - TOKENS // 2, 1)).tolist()
            most = min(TOKENS, longest - len(prompt))
            _check(engine, name, model, prompt, most, f" past {length:,} tokens")


def _check(
    engine: Engine, name: str, model: str, prompt: Sequence[int], most: int, where: str = ""
) -> None:
    """Sample after this prompt and a short one, side by side."""
    other = "torch" if name == "mlx" else "mlx"
    try:
        engine.tokenizer.decode(engine.tokenizer("1 + 1")["input_ids"])  # its settings show here
        rollouts = engine.generate((prompt, (4,)), 2, Sampling(most), 0)
        gaps = np.abs(rollouts.logp - engine.score(rollouts, (LOGP,))[LOGP]).mean(axis=1)
    except UserError:  # the memory is full
        raise
    except Exception as error:  # whatever a model of another kind raises
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise UserError(
            f"The model {model} cannot be sampled by the {name} engine{where}: {reason}.",
            f"--backend {other} may know it",
        ) from error
    limit = FLOAT32_GAP if engine.describe().get("dtype") == "float32" else ROUNDED_GAP
    if (gap := float(gaps.max())) > limit:
        raise UserError(
            f"The model {model} does not sample what it evaluates{where}: log-probabilities differ "
            f"by {gap:.2g} nats a token.",
            f"its cache is of a kind the {name} engine does not know; --backend {other} may",
        )
