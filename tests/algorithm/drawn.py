"""What the property tests of the algorithm draw: distributions, batches of rollouts, scored ones.

Shapes as in `ictcli.types`: B rows of up to T tokens, in groups of G.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ictcli.algorithm.methods import METHODS, Choice, Options, Scored, ShareOptions
from ictcli.algorithm.objective import Objective, TokenTerms, policy_loss
from ictcli.files import plugins
from ictcli.types import BoolArray, FloatArray

BUILT_IN = sorted(
    name
    for name, method in METHODS.items()
    if method.rule.__module__.startswith("ictcli.algorithm")
)

for plugin in ("methods.py", "credit.py"):
    plugins.load(str(Path(__file__).parents[2] / "examples" / "methods" / plugin))
EVERY = sorted(METHODS)
"""Those of the plugin too."""

percents = st.integers(1, 100)
seeds = st.integers(0, 2**32)
longest_lengths = st.integers(1, 25)


def distributions(rows: int = 1) -> st.SearchStrategy[FloatArray]:
    """(rows, V) float64 probabilities, many of them exactly 0 and some close to it."""

    def normalised(weights: FloatArray) -> FloatArray:
        weights[:, 0] += weights.sum(axis=1) == 0
        return weights / weights.sum(axis=1, keepdims=True)

    entries = st.one_of(st.just(0.0), st.floats(1e-12, 1e-6), st.floats(1e-3, 1.0))
    return st.integers(1, 30).flatmap(
        lambda V: hnp.arrays(np.float64, (rows, V), elements=entries).map(normalised)
    )


@dataclass(frozen=True)
class Ragged:
    """A mask of rows of different lengths, in groups, with a score full of ties and zeros."""

    valid: BoolArray
    score: FloatArray
    group: int


@st.composite
def ragged(draw: st.DrawFn) -> Ragged:
    group, groups, longest = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(longest_lengths)
    rng = np.random.default_rng(draw(seeds))
    lengths = rng.integers(1, longest, group * groups, endpoint=True)
    T = longest + int(rng.integers(0, 3))
    valid = np.arange(T)[None, :] < lengths[:, None]
    return Ragged(valid, rng.integers(0, 7, valid.shape).astype(np.float64), group)


@st.composite
def scored(draw: st.DrawFn) -> Scored:
    """A batch as a rule sees it, float32, zero after a row's end; about half of u is 0."""
    rows = draw(ragged())
    B, T = rows.valid.shape
    rng = np.random.default_rng(draw(seeds))

    def field(values: FloatArray) -> FloatArray:
        return np.where(rows.valid, values, 0).astype(np.float32)

    u = field(rng.uniform(0, 0.5, (B, T)) * (rng.random((B, T)) < 0.5))
    stats = {
        "entropy": field(rng.uniform(0, 3, (B, T))),
        "purity": field(rng.uniform(0.05, 1, (B, T))),
        "prob": field(10 ** rng.uniform(-4, 0, (B, T))),
        "uniqueness": u,
        "kl_from_mean": field(rng.uniform(0, 2, (B, T))),
        "kl_to_mean": field(rng.uniform(0, 2, (B, T))),
        "wasserstein": field(rng.uniform(0, 50, (B, T))),
    }
    likely = rng.random((B, T)) < 0.7
    stats["min_p"] = np.where(likely, np.minimum(1.25 * stats["prob"], 1), 0)
    correct = rng.random(B) < 0.5
    advantage = rng.integers(-2, 3, B).astype(np.float64)
    logp = field(-rng.exponential(1.5, (B, T)))
    tokens = np.where(rows.valid, rng.integers(0, 3, (B, T)), 0)  # few, so that rows share prefixes
    return Scored(stats, logp, advantage, correct, rows.valid, tokens, [""] * B, rows.group, rng)


def options_of(name: str, **given: Any) -> Options:
    """The method's options, `keep` filled in as a recipe does."""
    options = METHODS[name].options
    return options(**({"keep": 0.1} if issubclass(options, ShareOptions) else {}) | given)


def choose(name: str, batch: Scored, seed: int = 0, **given: Any) -> Choice:
    """What the method chooses of the batch, its generator started from the seed."""
    fresh = replace(batch, rng=np.random.default_rng(seed))
    return METHODS[name].rule(fresh, options_of(name, **given))


def loss_by_logp(
    logp: FloatArray, valid: BoolArray, terms: TokenTerms, objective: Objective
) -> tuple[float, FloatArray]:
    """The loss, and its gradient (B, T) by log pi: of two tokens, the sampled one's logit has
    (1 - pi) of it."""
    torch = pytest.importorskip("torch")
    from ictcli_torch import namespace

    flat = terms.map(lambda values: torch.from_numpy(np.array(values[valid])))
    at = logp[valid]
    logits = torch.from_numpy(np.stack([at, np.log1p(-np.exp(at))], axis=-1))
    logits.requires_grad_()
    flat = replace(flat, targets=torch.zeros(len(logits), dtype=torch.long))
    loss, *_ = policy_loss(namespace, logits, flat, objective)
    loss.backward()
    gradient = np.zeros(valid.shape)
    gradient[valid] = logits.grad[:, 0].numpy() / (1 - np.exp(at))
    return float(loss.detach()), gradient


def keeps_the_best(
    kept: BoolArray, score: FloatArray, batch: Scored, percent: int, scope: str = "batch"
) -> bool:
    """Whether it is the share with the highest scores, and never a 0; up to ties."""
    for rows in parts(batch.valid, scope, batch.group):
        candidates = np.sort(score[rows][batch.valid[rows]])[::-1]
        best = candidates[: ceil_percent(percent, len(candidates))]
        found = np.sort(score[rows][kept[rows]])[::-1]
        assert found == pytest.approx(best[best > 0], rel=1e-5)
    return True


def ceil_percent(percent: int, count: int) -> int:
    """ceil(percent / 100 * count), in integers."""
    return -(-percent * count // 100)


def parts(valid: BoolArray, scope: str, group: int) -> list[slice]:
    """The rows of each response, group or batch."""
    size = {"response": 1, "group": group, "batch": len(valid)}[scope]
    return [slice(first, first + size) for first in range(0, len(valid), size)]
