"""Rows that share a prompt: what passes give is what they give where each row runs it again."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from ictcli_torch.passes import asked_of, shares_prompts, wanted_states
from transformers import AutoConfig, AutoModelForCausalLM

from ictcli.algorithm.objective import Objective
from ictcli.engine.packing import micro_batches
from ictcli.engine.update import Update
from ictcli.recipe.tables import NewAdapters
from ictcli.types import Rollouts

from .conftest import LORA, Make, made_up
from .models import TINY
from .training import LR, SMOOTH, advantages, apart, logp_of, sparse_weights, weights_of


def long_prompts(lengths: tuple[int, ...] = (20, 26, 20, 31)) -> Rollouts:
    """`made_up` after prompts that are worth sharing."""
    rng = np.random.default_rng(4)
    prompts = tuple(tuple(rng.integers(2, 18, n).tolist()) for n in lengths)
    return replace(made_up(group=4), prompts=prompts)


@pytest.mark.parametrize("adapter", [LORA, None], ids=["lora", "all weights"])
def test_an_update_is_the_same(make_engine: Make, adapter: NewAdapters | None) -> None:
    """Ragged groups that are cut, rows without a weight, a group without a signal, two epochs, a
    reference; and what is computed again on the way back is the same."""
    rollouts = long_prompts()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    objective = Objective(kl=0.1, entropy=0.01, temperature=0.7)
    small: dict[str, Any] = {"micro_tokens": 60, "gradient_checkpointing": True}
    both = (
        make_engine(optimizer=SMOOTH, adapter=adapter, **small),
        make_engine(optimizer=SMOOTH, adapter=adapter),
    )
    both[1].passes.share = False
    for engine in both:
        engine.keep_reference()
    olds = [logp_of(engine, rollouts, 0.7) for engine in both]
    np.testing.assert_allclose(olds[0], olds[1], atol=2e-5)
    reports = [
        [engine.update(Update(rollouts, weights, A, objective, old), LR) for _ in range(2)]
        for engine, old in zip(both, olds, strict=True)
    ]
    for sharing, plain, rel in zip(*reports, (3e-6, 1e-4), strict=True):
        assert sharing.loss == pytest.approx(plain.loss, rel=rel, abs=1e-6)
        assert sharing.grad_norm == pytest.approx(plain.grad_norm, rel=rel)
        np.testing.assert_allclose(sharing.logp, plain.logp, atol=10 * rel)
        assert not both[0].passes.share or sharing.tokens < plain.tokens
    assert apart(*map(weights_of, both)) < 1e-6


def test_a_cache_that_forgets_is_not_shared(
    make_engine: Make, sliding_model: Path, hybrid_model: Path
) -> None:
    for folder in (sliding_model, hybrid_model):
        assert not make_engine(folder).passes.share


def of(kind: str, **more: Any) -> Any:
    """A random model of transformers."""
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, **(TINY | more))).eval()


def test_only_known_positions_are_shared() -> None:
    """Not those that a model counts itself, padding too, nor those that follow the length."""
    llama = of("llama")
    for rope, shared in (
        ({"rope_type": "linear", "factor": 2.0}, True),
        ({"rope_type": "dynamic", "factor": 2.0}, False),
        ({"full_attention": {"rope_type": "longrope", "factor": 2.0}}, False),
    ):
        llama.config.rope_parameters = rope
        assert shares_prompts(llama) == shared
    assert not shares_prompts(of("bart")) and not shares_prompts(of("bloom"))


def test_what_does_not_take_a_layout_is_found_out() -> None:
    """Blocks that drop it, or make masks of their own, or ask twice; values narrower than keys."""
    for kind in ("nemotron", "stablelm", "doge", "diffllama"):
        assert not shares_prompts(of(kind))
    latent = of("deepseek_v3", num_key_value_heads=4, v_head_dim=8, n_routed_experts=8)
    assert shares_prompts(latent) and not any(asked_of(latent))


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("llama", {}),
        ("gpt2", {}),
        ("bloom", {}),
        ("nemotron", {}),
        ("gpt_oss", {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2}),
    ],
)
def test_the_last_mlp_gives_the_states_that_are_read(kind: str, more: dict[str, Any]) -> None:
    """Whatever it takes and gives beside states: a residual, a router's scores."""
    model, rollouts = of(kind, **more), long_prompts()
    (batch,) = micro_batches(rollouts, rollouts.valid, 100_000, share=False)
    with torch.inference_mode():
        found = wanted_states(model, batch)
        whole = model.get_decoder()(input_ids=torch.from_numpy(batch.ids), use_cache=False)
    wanted = whole.last_hidden_state[torch.from_numpy(batch.head)]
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


rows_wanted = st.lists(st.integers(0, 9), min_size=12, max_size=12)
prompt_lengths = st.lists(st.integers(1, 40), min_size=3, max_size=3)


@given(rows_wanted, prompt_lengths, st.integers(1, 300), st.integers(0, 100))
def test_every_wanted_token_is_packed_once_within_the_budget(
    ends: list[int], lengths: list[int], budget: int, joined: int
) -> None:
    """For any lengths: each in one pass, after the tokens that come before it."""
    rng = np.random.default_rng(0)
    tokens = rng.integers(1, 99, (12, 9)).astype(np.int32)
    prompts = tuple(tuple(rng.integers(1, 99, n).tolist()) for n in lengths)
    wanted = (rng.random((12, 9)) < 0.5) & (np.arange(9) < np.array(ends)[:, None])
    rollouts = Rollouts(
        prompts, 4, tokens, np.full(12, 9, np.int32), np.ones(12, bool), np.zeros((12, 9))
    )
    seen = np.zeros((12, 9), dtype=int)
    for batch in micro_batches(rollouts, wanted, budget, joined=joined):
        seen[batch.rows, batch.positions] += 1
        assert len(batch.ids) == 1 or batch.tokens <= budget
        rows, columns = np.nonzero(batch.head)
        for n, (r, c) in enumerate(zip(rows, columns, strict=True)):
            row, t = batch.rows[n], batch.positions[n]
            before = [*rollouts.prompt_of(row), *tokens[row, :t]]
            if batch.shared is None:
                given_tokens = batch.ids[r, : c + 1].tolist()
            else:
                q = batch.shared.of_row[r]
                prompt = batch.shared.ids[q, : batch.shared.lengths[q]]
                given_tokens = [*prompt.tolist(), *batch.ids[r, :c].tolist()]
            assert given_tokens == before
    np.testing.assert_array_equal(seen, wanted)
