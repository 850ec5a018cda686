"""What the laws of `update`, `save` and `restore` share: data, and a look at an engine's state."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from ictcli.algorithm.objective import Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine import Engine
from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.types import LOGP, FloatArray, Rollouts, UpdateReport

SMOOTH = OptimizerSettings(eps=5e-2, clip_norm=1e3)
"""AdamW whose step is a smooth function of the gradient: with the default eps a first step is
lr * sign(g), which turns rounding of a gradient near 0 into a step of lr."""
LR = 5e-3
PLAIN = Objective()


def advantages(rollouts: Rollouts, seed: int = 5) -> FloatArray:
    """(B,) of both signs, and 0 throughout the second group."""
    found = np.random.default_rng(seed).normal(size=len(rollouts))
    found[rollouts.group : 2 * rollouts.group] = 0.0
    return found


def sparse_weights(rollouts: Rollouts, share: float = 0.4) -> FloatArray:
    """(B, T): a random share of the tokens kept, the last row without any."""
    rng = np.random.default_rng(9)
    kept = rollouts.valid & (rng.random(rollouts.tokens.shape) < share)
    kept[-1] = False
    return normalise(kept, rollouts.valid, "sequence", rollouts.tokens.shape[1])


def plain_update(rollouts: Rollouts, seed: int = 5) -> Update:
    return Update(rollouts, sparse_weights(rollouts), advantages(rollouts, seed), PLAIN)


def logp_of(
    engine: Engine, rollouts: Rollouts, temperature: float = 1.0, *, reference: bool = False
) -> FloatArray:
    """(B, T) log-probabilities of the tokens."""
    return engine.score(rollouts, (LOGP,), temperature, reference=reference)[LOGP]


def train(engine: Engine, rollouts: Rollouts, steps: int, first: int = 0) -> list[UpdateReport]:
    """Plain updates, each with advantages of its own."""
    return [engine.update(plain_update(rollouts, first + n), LR) for n in range(steps)]


def state(engine: Engine) -> dict[str, bytes]:
    """Everything `save` writes, file by file: equal bytes are equal weights and moments."""
    with TemporaryDirectory() as folder:
        return {path.name: path.read_bytes() for path in saved(engine, Path(folder)).iterdir()}


def alike(one: dict[str, bytes], other: dict[str, bytes], device: str) -> bool:
    """Whether states are the same: to the bit on a CPU, and up to rounding on a GPU, which may add
    up a gradient in another order each time."""
    if device == "cpu":
        return one == other
    from safetensors.torch import load

    assert one.keys() == other.keys()
    for a, b in ((load(one[name]), load(other[name])) for name in one):
        assert a.keys() == b.keys()
        if any((a[name].double() - b[name].double()).abs().max() >= 1e-4 for name in a):
            return False
    return True


def saved(engine: Engine, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    engine.save(folder)
    return folder


def exported(engine: Any, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    engine.export(folder)
    return folder


def weights_of(engine: Engine) -> dict[str, np.ndarray]:
    """The weights by name, read from an export in Hugging Face layout."""
    with TemporaryDirectory() as folder:
        return load_file(exported(engine, Path(folder)) / "model.safetensors")


def apart(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest difference of any weight."""
    assert one.keys() <= other.keys()
    return max(float(np.abs(values - other[name]).max()) for name, values in one.items())
