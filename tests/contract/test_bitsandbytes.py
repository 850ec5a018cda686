"""Laws of 4-bit weights in the PyTorch engine, on a GPU: `pytest -m gpu`."""

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from .conftest import GROUP, PROMPTS, SAMPLING, made_up, make_torch
from .lowrank import LORA, adapters_of
from .training import apart, exported, logp_of, saved, state, train

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"),
]
make = partial(make_torch, device="cuda")


def test_adapters_train_on_4_bits(tiny_model: Path, tmp_path: Path) -> None:
    """Restored to the bit, resumed, and exported whole, unpacked."""
    engine, again = (
        make(tiny_model, adapter=LORA, load_in_4bit=True, dtype="bfloat16") for _ in range(2)
    )
    rollouts = made_up()
    assert engine.describe()["bits"] == [4]
    train(engine, rollouts, 2)
    again.restore(saved(engine, tmp_path / "saved"))
    assert state(again) == state(engine)
    for one in (engine, again):
        train(one, rollouts, 1, 2)
    after = adapters_of(engine), adapters_of(again)
    assert apart(*after) < 1e-4
    before, wanted = state(engine), logp_of(engine, rollouts)
    whole = make(exported(engine, tmp_path / "whole"), dtype="bfloat16")
    assert state(engine) == before
    assert whole.describe()["bits"] == []
    np.testing.assert_allclose(logp_of(whole, rollouts), wanted, atol=0.3)
    assert {str(w.dtype) for w in after[0].values()} == {"float32"}


def test_graphs_of_4_bits_sample_what_is_evaluated(tiny_model: Path) -> None:
    engine = make(tiny_model, adapter=LORA, load_in_4bit=True, dtype="bfloat16")
    assert engine.describe()["compiled"]
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    evaluated = logp_of(engine, found)
    np.testing.assert_allclose(found.logp, evaluated, atol=0.3)
