"""What every engine has to show before anything depends on it."""

import numpy as np

from ictcli.engine.protocol import Engine
from ictcli.errors import UserError
from ictcli.types import Sampling

FLOAT32_GAP, ROUNDED_GAP = 0.01, 0.5
"""Mean |log p| a token that sampling and evaluation may differ by, in float32 and in 16 bits: far
above what rounding makes, and below what a lost prefix does."""


def check_sampling(engine: Engine, name: str, model: str) -> None:
    """Refuse a model that samples from another distribution than it evaluates: some do not know
    the engine's kind of cache, or padding, and say nothing. A few made-up tokens show it, behind
    prompts long enough to be shared."""
    other = "torch" if name == "mlx" else "mlx"
    try:
        engine.tokenizer.decode(engine.tokenizer("1 + 1")["input_ids"])  # its settings show here
        rollouts = engine.generate(((1, 2, 3, 1, 2, 3), (4,)), 2, Sampling(4), 0)
        gap = float(np.abs(rollouts.logp - engine.logprobs(rollouts, 1.0)).mean())
    except UserError:  # the memory is full
        raise
    except Exception as error:  # whatever a model of another kind raises
        reason = " ".join(str(error).split())[:300].rstrip(".")
        raise UserError(
            f"The model {model} cannot be sampled by the {name} engine: {reason}.",
            f"--backend {other} may know it",
        ) from error
    if gap > (FLOAT32_GAP if engine.describe().get("dtype") == "float32" else ROUNDED_GAP):
        raise UserError(
            f"The model {model} does not sample what it evaluates: log-probabilities differ by "
            f"{gap:.2g} nats a token.",
            f"its cache is of a kind the {name} engine does not know; --backend {other} may",
        )
