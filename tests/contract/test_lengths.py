"""Laws of sequences across the lengths at which a model's arithmetic changes: windows, chunks, and
rotary frequencies that follow the length."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine.registry import check_lengths, check_sampling
from ictcli.errors import UserError
from ictcli.types import Rollouts, Sampling

from .conftest import reader, require
from .models import make_kind
from .oracle import Oracle
from .training import logp_of

AT = 16
"""Where it changes, of each of these models."""
LONG: Any = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0] * 4,
    "original_max_position_embeddings": AT,
}
PHI: Any = {"rope_parameters": LONG, "original_max_position_embeddings": AT}
SLIDING: Any = {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": AT}
CHUNKED: Any = {"num_local_experts": 2, "head_dim": 8, "attention_chunk_size": AT}
CHUNKED |= {"intermediate_size_mlp": 64}
MIXED: Any = {"layer_types": ["sliding_attention", "full_attention"] * 2, "num_hidden_layers": 4}
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Phi-3": ("phi3", PHI),
    "dynamic NTK": ("llama", {"rope_parameters": {"rope_type": "dynamic", "factor": 4.0}}),
    "Mistral": ("mistral", {"sliding_window": AT}),
    "Gemma 3": ("gemma3_text", SLIDING | MIXED),
    "Llama 4": ("llama4_text", CHUNKED),
}


REFUSED_BY_MLX = (("Llama 4", 0), ("Mistral", 40))
"""As transformers saves it; its window."""


@pytest.fixture(scope="module")
def family(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind, more = FAMILIES[request.param]
    return make_kind(tmp_path_factory.mktemp("models") / request.param, kind, **more)


def sampled(engine: Any, longest: int) -> Rollouts:
    """From a prompt that ends before AT, beside shorter ones."""
    tokens = np.random.default_rng(1).integers(2, 17, AT - 2).tolist()
    prompts = tokens, tokens[:1], tokens[:9]
    return engine.generate(prompts, 3, Sampling(longest - AT + 2), 5)


@pytest.mark.parametrize(
    ("family", "context"),
    [*((name, 0) for name in FAMILIES), ("Phi-3", 40), ("Mistral", 40)],
    indirect=["family"],
)
def test_what_is_sampled_is_what_is_evaluated_whatever_the_batch(
    engine_name: str, family: Path, context: int
) -> None:
    """It is what transformers gives each row alone, but that LongRoPE's frequencies for long
    sequences hold for all of a run that may have some. mlx-lm's Mistral has no window."""
    if engine_name == "mlx" and (family.name, context) in REFUSED_BY_MLX:
        with pytest.raises(UserError):
            reader(engine_name, family, context=context)
        return
    engine = reader(engine_name, family, context=context)
    found = sampled(engine, min(engine.context, 40))
    check_lengths(engine, str(family), min(engine.context, 40))
    for tokens in (2048, 1):
        engine.budget.tokens = tokens
        np.testing.assert_allclose(logp_of(engine, found), found.logp, atol=3e-5)
    follows = "longrope" in (family / "config.json").read_text()
    assert context or not follows or engine.context == AT
    rows = slice(3) if follows and context else slice(None)
    wanted = Oracle(family).logp(found, 1.0)
    np.testing.assert_allclose(found.logp[rows], wanted[rows], atol=6e-3)


@pytest.fixture(scope="module")
def phi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_kind(tmp_path_factory.mktemp("models") / "phi", "phi3", **PHI)


def test_a_model_that_changes_in_the_middle_is_refused_by_runs_that_come_there(phi: Path) -> None:
    """And by no other."""
    require("torch")
    engine = reader("torch", phi, context=40)
    for module in engine.model.modules():  # whose frequencies follow the length again
        vars(module).pop("forward", None)
    check_sampling(engine, "torch", str(phi))
    check_lengths(engine, str(phi), AT)
    with pytest.raises(UserError, match=f"what it evaluates past {AT} tokens"):
        check_lengths(engine, str(phi), AT + 1)


def test_a_context_beyond_the_models_is_refused(engine_name: str, phi: Path) -> None:
    with pytest.raises(UserError, match=r"engine\.context = 129 exceeds the 128 tokens"):
        reader(engine_name, phi, context=129)
