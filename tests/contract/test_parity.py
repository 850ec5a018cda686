"""The PyTorch and the MLX engine side by side, in float32: one seed samples the same tokens, and
the same of them are kept. `oracle` and `dense` hold that each computes the model and its step."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.engine.models import BUILTIN
from ictcli.tasks import find_task
from ictcli.types import Rollouts, Sampling
from tests.cases import first

from .conftest import ENGINES, build, made_up
from .oracle import Oracle
from .training import logp_of

SEED, GROUP = 3, 6


@dataclass(frozen=True)
class Case:
    """A model, prompts for it, and both engines with it loaded. Shared by tests that only read."""

    prompts: Sequence[Sequence[int]]
    max_tokens: int
    engines: dict[str, Any]

    def sample(self, how: dict[str, Any], wanted: Sequence[str] = ()) -> list[Rollouts]:
        """Of each engine, by one seed. Fails where their tokens differ."""
        sampling = Sampling(self.max_tokens, **{"stop_ids": self.engines["torch"].stop_ids} | how)
        one, other = (
            engine.generate(self.prompts, GROUP, sampling, SEED, wanted)
            for engine in self.engines.values()
        )
        for name in ("tokens", "lengths", "finished"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        return [one, other]


@pytest.fixture(scope="module")
def case() -> Case:
    """The built-in model with problems of its own."""
    engines = {name: build(name, BUILTIN["chain"]) for name in ENGINES}
    problems = find_task("chain").batch(0, 1, 5)
    prompts = [engines["torch"].tokenizer(problem.prompt)["input_ids"] for problem in problems]
    assert len(set(map(len, prompts))) > 1
    return Case(prompts, 40, engines)


@pytest.mark.parametrize(
    "how",
    [{"temperature": 1.5, "top_p": 0.8}, {"top_k": 3}, {"stop_ids": ()}],
    ids=["top_p", "top_k", "to the limit"],
)
def test_the_same_seed_samples_the_same_tokens(case: Case, how: dict[str, Any]) -> None:
    found, _ = case.sample(how)
    assert len(np.unique(found.tokens, axis=0)) > len(case.prompts)


def alike(one: Any, other: Any, rollouts: Rollouts) -> None:
    """The same log-probabilities and stop tokens."""
    assert (other.stop_ids, other.context) == (one.stop_ids, one.context)
    np.testing.assert_allclose(
        logp_of(other, rollouts), logp_of(one, rollouts), atol=1e-5, rtol=1e-6
    )


ROPE: dict[str, dict[str, Any]] = {
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "linear": {"factor": 2.0},
}


@pytest.mark.parametrize("kind", first(list(ROPE)))
def test_rotary_settings_are_kept(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """As transformers 5 saves them, in `rope_parameters` alone: by both engines as they load, and
    on the way from each through an export to the other."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder, rollouts = tmp_path / "rotary", made_up()
    config = AutoConfig.from_pretrained(tiny_model)
    original = {"original_max_position_embeddings": 32} if kind == "llama3" else {}
    config.rope_parameters = {"rope_theta": 50.0, "rope_type": kind} | ROPE[kind] | original
    AutoModelForCausalLM.from_pretrained(tiny_model, config=config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert written["rope_parameters"]["rope_theta"] == 50.0 and "rope_theta" not in written
    wanted = Oracle(folder).logp(rollouts, 1.0)
    assert np.abs(wanted - Oracle(tiny_model).logp(rollouts, 1.0)).max() > 0.1
    for writer in ENGINES:
        engine, out = build(writer, folder), tmp_path / writer
        out.mkdir()
        np.testing.assert_allclose(logp_of(engine, rollouts), wanted, atol=1e-5, rtol=1e-5)
        engine.export(out)
        for name in ENGINES:
            alike(engine, build(name, out), rollouts)
        np.testing.assert_allclose(Oracle(out).logp(rollouts, 1.0), wanted, atol=1e-5, rtol=1e-5)
