"""TRL's engine where transformers samples and a pass evaluates: the torch engine's numbers."""

import inspect
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.engine import build_engine
from ictcli.engine.update import Update
from ictcli.errors import EngineMissingError, UserError
from ictcli.planning.preflight import recipe_notes
from ictcli.recipe.load import check
from ictcli.recipe.tables import EngineSettings
from ictcli.types import Rollouts, Sampling

from .conftest import PROMPTS, WANTED, made_up
from .lowrank import LORA
from .test_trl import CLOSE, GROUP, assert_same_step, gradient
from .training import SMOOTH, advantages, logp_of, sparse_weights, train

pytest.importorskip("trl")

HOW = Sampling(14, 0.7, stop_ids=(17, 4))


def build(name: str, model: Path, *more: Any, **settings: Any) -> Any:
    chosen = EngineSettings(backend=name, device="cpu", dtype="float32", threads=1, **settings)
    engine = build_engine(str(model), chosen, SMOOTH, *more)
    engine.keep_reference()
    train(engine, made_up(), 1)
    return engine


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[tuple[Any, Any]]:
    yield build("torch", tiny_model), build("trl", tiny_model, sampler="transformers", rows=5)


@pytest.fixture(scope="module")
def sampled(pair: tuple[Any, Any]) -> tuple[Rollouts, Rollouts]:
    one, other = (engine.generate(PROMPTS, GROUP, HOW, 7, WANTED) for engine in pair)
    return one, other


def assert_same(one: Rollouts, other: Rollouts) -> None:
    assert one.prompts == other.prompts
    for name in ("tokens", "lengths", "finished"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert other.sampler_logp is not None
    for values in (other.logp, other.sampler_logp):
        np.testing.assert_allclose(values, one.logp, atol=CLOSE)
    assert one.stats.keys() == other.stats.keys() == set(WANTED)
    for name in WANTED:
        np.testing.assert_allclose(other.stats[name], one.stats[name], atol=CLOSE, err_msg=name)


def test_transformers_draws_the_same_and_the_pass_measures_the_same(
    sampled: tuple[Rollouts, Rollouts],
) -> None:
    assert_same(*sampled)
    assert len(set(sampled[0].lengths)) > 1


def test_adapters_too(tiny_model: Path) -> None:
    engines = (
        build("torch", tiny_model, LORA),
        build("trl", tiny_model, LORA, sampler="transformers"),
    )
    rollouts = [engine.generate(PROMPTS, GROUP, HOW, 7, WANTED) for engine in engines]
    assert_same(rollouts[0], rollouts[1])
    update = Update(
        rollouts[1], sparse_weights(rollouts[1]), advantages(rollouts[1]), Objective(kl=0.3)
    )
    assert_same_step((engines[0], engines[1]), update)


@pytest.mark.parametrize("kl", [0.0, 0.3])
def test_a_step_has_the_same_loss_and_gradient(
    pair: tuple[Any, Any], sampled: tuple[Rollouts, Rollouts], kl: float
) -> None:
    rollouts = sampled[1]
    objective = Objective(kl=kl, temperature=0.7)
    update = Update(rollouts, sparse_weights(rollouts), advantages(rollouts), objective)
    assert_same_step(pair, update)
    before = [p.detach().clone() for p in pair[1].trained.parameters()]
    logp_of(pair[1], rollouts, 0.7, reference=True)
    for old, p in zip(before, pair[1].trained.parameters(), strict=True):
        assert bool((old == p).all())


@pytest.mark.parametrize("cap", [0.0, 1.2])
def test_another_sampler_is_corrected_up_to_the_cap(
    pair: tuple[Any, Any], sampled: tuple[Rollouts, Rollouts], cap: float
) -> None:
    """The factor pi / pi_sampler is a weight of the token, but of its KL term, which the torch
    engine is given apart: as an update without advantage."""
    torch, trl = pair
    one, other = sampled
    noise = np.random.default_rng(2).normal(size=one.logp.shape).astype(np.float32) / 3
    noise[:, 2] = 200  # whose exponential is no float32
    other = replace(other, sampler_logp=other.logp - np.where(other.valid, noise, 0))
    weights, A = sparse_weights(one), advantages(one)
    factor = np.minimum(np.exp(noise, dtype=float), cap) if cap else 1
    objective, loss = Objective(temperature=0.7, kl=0.3), 0.0
    ours = {name: np.zeros(p.shape) for name, p in torch.model.named_parameters()}
    for update in (
        Update(one, weights * factor, A, Objective(temperature=0.7)),
        Update(one, weights, np.zeros_like(A), objective),
    ):
        loss += torch.gradient(update).loss
        ours = {name: ours[name] + g for name, g in gradient(torch.model).items()}
    trl.settings = trl.settings.model_copy(update={"importance_cap": cap})
    with np.errstate(over="raise"):
        found = trl.gradient(Update(other, weights, A, objective))
    assert found.loss == pytest.approx(loss, abs=CLOSE)
    for name, values in gradient(trl.trained).items():
        np.testing.assert_allclose(values, ours[name], atol=CLOSE)


def test_what_vllm_gives_is_measured_alike(
    pair: tuple[Any, Any], sampled: tuple[Rollouts, Rollouts]
) -> None:
    """A log-probability that vLLM does not know is taken to be the model's."""
    from ictcli_trl.sample import evaluated, listed
    from trl.generation.vllm_generation import VLLMGeneration

    one, engine = sampled[0].groups(0, 1), pair[1]
    tokens = [row[:n].tolist() for row, n in zip(one.tokens, one.lengths, strict=True)]
    logp = [row[:n].tolist() for row, n in zip(one.logp, one.lengths, strict=True)]
    logp[0][1] = float("nan")
    rollouts = listed(one.prompts, GROUP, HOW, tokens, logp)
    assert_same(one, evaluated(engine.trained, rollouts, 0.7, WANTED, engine.vocabulary))
    asked = inspect.signature(VLLMGeneration.generate).parameters
    assert {"prompts", "images", "num_generations"} <= asked.keys()
    assert callable(VLLMGeneration.sync_weights)


class Vllm:
    """In vLLM's place: it writes 4 tokens a row and checks that it was sent the weights."""

    def __init__(self, model: Any) -> None:
        self.model, self.sent, self.syncs = model, 0.0, 0

    def weights(self) -> float:
        return sum(float(p.detach().abs().sum()) for p in self.model.parameters())

    def sync_weights(self) -> None:
        self.sent, self.syncs = self.weights(), self.syncs + 1

    def generate(self, prompts: list[list[int]], **options: Any) -> Any:
        assert self.sent == self.weights()
        return prompts, [[5, 6, 7, 8]] * len(prompts), [[[-1.0]] * 4] * len(prompts), None


def test_vllm_samples_by_the_weights_that_are_trained(tiny_model: Path, tmp_path: Path) -> None:
    """After a step and after a checkpoint is read, they are sent; else once."""
    engine = build("trl", tiny_model, sampler="transformers")
    engine.settings = engine.settings.model_copy(update={"sampler": "vllm"})
    engine.trainer.vllm_generation = vllm = Vllm(engine.trained)
    engine.save(tmp_path)
    engine.generate(PROMPTS, 2, HOW, 7)
    rollouts = engine.generate(PROMPTS, 2, HOW, 7, WANTED)
    assert vllm.syncs == 1
    engine.update(
        Update(rollouts, sparse_weights(rollouts), advantages(rollouts), Objective()), 1e-2
    )
    engine.generate(PROMPTS, 2, HOW, 7)
    assert vllm.syncs == 2
    engine.restore(tmp_path)
    engine.generate(PROMPTS, 2, HOW, 7)
    assert vllm.syncs == 3


def recipe(backend: str = "trl", **engine: Any) -> Any:
    table: dict[str, Any] = {"model": "builtin:chain", "task": "chain", "steps": 1}
    return check(table | {"method": "grpo", "engine": {"backend": backend, **engine}}, "test")


def test_settings_of_a_sampler_that_cannot_be_are_refused() -> None:
    with pytest.raises(UserError, match="setting of TRL, not of torch") as refused:
        recipe_notes(recipe("torch", sampler="transformers"))
    assert refused.value.hint == "--backend trl"
    with pytest.raises(UserError, match=r"test: engine: vllm_server is of sampler = vllm\."):
        recipe(vllm_server="http://node:8000")
    recipe_notes(recipe(sampler="transformers"))


def test_vllm_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from ictcli_trl import plan

    monkeypatch.setattr(plan, "find_spec", lambda name: None)
    with pytest.raises(EngineMissingError) as refused:
        recipe_notes(recipe(sampler="vllm"))
    assert refused.value.hint == 'pip install "trl[vllm]"'


@pytest.mark.parametrize("server", ["", "http://node:8000"])
def test_trl_takes_the_settings_of_vllm(server: str, tmp_path: Path) -> None:
    from ictcli_trl.hooks import vllm_settings
    from trl.trainer.grpo_config import GRPOConfig

    settings = EngineSettings(sampler="vllm", vllm_server=server, vllm_memory=0.4, rows=33)
    config = GRPOConfig(
        output_dir=str(tmp_path), num_generations=2, use_cpu=True, **vllm_settings(settings)
    )
    assert config.use_vllm
    assert config.vllm_mode == ("server" if server else "colocate")
    assert config.per_device_train_batch_size == 32
    if server:
        assert config.vllm_server_base_url == server
    else:
        assert config.vllm_gpu_memory_utilization == 0.4
    assert vllm_settings(EngineSettings()) == {}
