"""What `bench/gpu.py` measures on a GPU fits the engine as it is."""

import inspect
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from gpu import PARTS
from gpu_decode import KeptMask
from ictcli_torch.decode import FixedDecoder

from .conftest import GROUP, PROMPTS, WANTED, make_torch
from .test_decoding import LONG, room  # noqa: F401


def test_every_part_is_a_function_of_its_arguments() -> None:
    for part in PARTS.values():
        inspect.signature(part.work()).bind(None, None, *part.arguments)


@pytest.mark.usefixtures("room")
def test_a_kept_mask_changes_no_bit(tiny_model: Path) -> None:
    engine = make_torch(tiny_model, device="cpu", dtype="float32")
    lockstep, drawn = engine.lockstep, []
    for decoder in (FixedDecoder, KeptMask):
        engine.lockstep = partial(lockstep, decoder=decoder)
        drawn.append(engine.generate(PROMPTS, GROUP, LONG, 5, WANTED))
    engine_draws, variant_draws = drawn
    assert np.array_equal(engine_draws.tokens, variant_draws.tokens)
    assert np.array_equal(engine_draws.logp, variant_draws.logp)
