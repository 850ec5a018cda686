"""Laws of decoding at fixed shapes, as CUDA graphs need it: it changes nothing but time.

`test_gpu` collects some of them again, and there the steps are graphs.
"""

import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ictcli_torch.decode import FixedDecoder, GrowingDecoder, SharedDecoder, has_fixed_step
from transformers import AutoConfig, AutoModelForCausalLM

from ictcli.recipe.tables import NewAdapters
from ictcli.types import Rollouts
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_torch
from .lowrank import LORA
from .models import make_capped
from .test_generate import same
from .training import SMOOTH, train

LONG = replace(SAMPLING, max_tokens=60, stop_ids=(7,))


@pytest.fixture(params=[8, 256], ids=["made anew", "made once"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Free positions of a cache: rows that ended leave when there are none."""
    monkeypatch.setattr("ictcli_torch.decode.FixedDecoder.ROOM", request.param)
    return request.param


def plain_and(other: type, engine: Any, prompts: Any = PROMPTS) -> tuple[Rollouts, Rollouts]:
    lockstep, found = engine.lockstep, []
    for decoder in (GrowingDecoder, other):
        engine.lockstep = partial(lockstep, decoder=decoder)
        found.append(engine.generate(prompts, GROUP, LONG, 5, WANTED))
    assert found[0].lengths.max() > 50
    assert len(set(found[0].lengths.tolist())) > 4
    return found[0], found[1]


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize(
    ("adapter", "dtype"), first([(LORA, "bfloat16"), (LORA, "float32"), (None, "float32")])
)
def test_fixed_shapes_change_no_token(
    tiny_model: Path, device: str, adapter: NewAdapters | None, dtype: str
) -> None:
    """Prompts of several lengths, and rows that end early. In float32 the next law holds it too."""
    engine = make_torch(tiny_model, SMOOTH, adapter, device=device, dtype=dtype)
    train(engine, made_up(), 1)
    plain, fixed = plain_and(FixedDecoder, engine)
    same(fixed, plain, atol=2e-5 if dtype == "float32" else 0.05)


def test_rows_that_share_a_prompt_and_their_first_tokens_are_one(tiny_model: Path) -> None:
    """On a CPU. Prompts of several lengths, and rows that end early."""
    engine, rows = make_torch(tiny_model, SMOOTH, LORA), list[int]()
    train(engine, made_up(), 1)
    plain, shared = plain_and(SharedDecoder, engine)
    same(shared, plain, atol=2e-5)
    engine.model.get_input_embeddings().register_forward_pre_hook(
        lambda _, ids: rows.append(len(ids[0]))
    )
    engine.generate(PROMPTS, GROUP, LONG, 5)
    begun = {(n // GROUP, token) for n, token in enumerate(shared.tokens[:, 0])}
    assert rows[1] == len(begun) < len(shared)


def test_a_decoder_goes_with_its_pass(tiny_model: Path) -> None:
    """A cycle of references would keep its cache, and a graph, until Python collects garbage."""
    engine, made = make_torch(tiny_model), list[weakref.ref[Any]]()

    def decoder(*given: Any) -> Any:
        made.append(weakref.ref(own := FixedDecoder(*given)))
        return own

    engine.lockstep = partial(engine.lockstep, decoder=decoder)
    engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    assert [reference() for reference in made] == [None]


def test_only_models_that_have_fixed_steps_take_them(
    tiny_model: Path, sliding_model: Path, hybrid_model: Path, tmp_path: Path
) -> None:
    """Windows, recurrent layers, experts, frequencies that follow the length, and attention that a
    model writes out do not."""

    def of(config: Any) -> bool:
        with torch.device("meta"):
            return has_fixed_step(AutoModelForCausalLM.from_config(config))

    tiny = AutoConfig.from_pretrained(tiny_model)
    assert of(tiny)
    for other in (sliding_model, hybrid_model, make_capped(tmp_path)):
        assert not of(AutoConfig.from_pretrained(other))
    sizes = {key: getattr(tiny, key) for key in ("hidden_size", "intermediate_size", "vocab_size")}
    assert not of(AutoConfig.for_model("mixtral", num_hidden_layers=1, **sizes))
    assert not of(AutoConfig.for_model("bloom", n_layer=1, hidden_size=32, vocab_size=18))
    scaled = {"rope_theta": 1e4, "factor": 2.0}
    for rope, fixed in (("linear", True), ("dynamic", False)):
        tiny.rope_parameters = scaled | {"rope_type": rope}
        assert of(tiny) == fixed


@pytest.mark.parametrize("chosen", ["auto", "on", "off"])
def test_graphs_are_for_cuda(tiny_model: Path, device: str, chosen: str) -> None:
    engine = make_torch(tiny_model, device=device, compile=chosen)
    assert engine.describe()["compiled"] == (device == "cuda" and chosen != "off")
