"""Laws of `logits` and of log-probabilities by a pass: the model's own, however they are packed."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ictcli.engine import Engine
from ictcli.types import Rollouts

from .conftest import MakeEngine, made_up
from .oracle import Oracle
from .training import logp_of


@pytest.mark.parametrize("at", [1.0, 0.6, 1.7])
def test_logprobs_are_the_models(engine: Engine, oracle: Oracle, at: float) -> None:
    rollouts = made_up()
    found = logp_of(engine, rollouts, at)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, oracle.logp(rollouts, at), atol=1e-5, rtol=1e-6)


def test_logprobs_are_the_samplers(engine: Engine, rollouts: Rollouts, temperature: float) -> None:
    np.testing.assert_allclose(logp_of(engine, rollouts, temperature), rollouts.logp, atol=2e-5)


@pytest.mark.parametrize("micro_tokens", [1, 40])
def test_micro_batches_change_nothing(
    make_engine: MakeEngine, model: Path, engine: Engine, micro_tokens: int
) -> None:
    rollouts, other = made_up(), make_engine(model, micro_tokens=micro_tokens)
    np.testing.assert_allclose(logp_of(other, rollouts), logp_of(engine, rollouts), atol=1e-5)
    where = rollouts.valid
    np.testing.assert_allclose(
        other.logits(rollouts, where), engine.logits(rollouts, where), atol=1e-4
    )


def test_right_padding_changes_nothing(engine: Engine) -> None:
    rollouts = made_up()
    padded = replace(
        rollouts,
        tokens=np.pad(rollouts.tokens, ((0, 0), (0, 4))),
        logp=np.pad(rollouts.logp, ((0, 0), (0, 4))),
    )
    np.testing.assert_array_equal(
        logp_of(engine, padded), np.pad(logp_of(engine, rollouts), ((0, 0), (0, 4)))
    )


@pytest.mark.parametrize("share", [1.0, 0.3, 0.02])
def test_logits_are_the_models_in_row_major_order(
    engine: Engine, oracle: Oracle, share: float
) -> None:
    rollouts = made_up(3)
    where = rollouts.valid & (np.random.default_rng(1).random(rollouts.tokens.shape) < share)
    where[2] = False
    assert where.any()
    found = engine.logits(rollouts, where)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, oracle.logits(rollouts, where), atol=5e-5, rtol=1e-5)


def test_no_place_gives_no_logits(tiny_engine: Engine) -> None:
    rollouts = made_up()
    found = tiny_engine.logits(rollouts, np.zeros(rollouts.tokens.shape, dtype=bool))
    assert found.shape == (0, 18)
