"""TRL's engine: the torch engine's numbers, in one process and in two, and what it refuses."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.methods import Scored, find_method
from ictcli.algorithm.objective import Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine import build_engine
from ictcli.engine.update import Update
from ictcli.errors import EngineMissingError, UserError
from ictcli.planning.preflight import recipe_notes
from ictcli.recipe.load import check
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.types import FloatArray, Rollouts, Sampling

from .conftest import PROMPTS, WANTED, made_up
from .lowrank import LORA
from .test_update_dense import against_dense, off_policy
from .training import LR, PLAIN, SMOOTH, advantages, sparse_weights, train

pytest.importorskip("trl")

GROUP = 4
CLOSE = 1e-5


def build(name: str, model: Path | str, *more: Any) -> Any:
    settings = EngineSettings(backend=name, device="cpu", dtype="float32", threads=1)
    return build_engine(str(model), settings, SMOOTH, *more)


def make_trl(model: Path, optimizer: OptimizerSettings, **settings: Any) -> Any:
    given = {"device": "cpu", "dtype": "float32", "threads": 1, **settings}
    return build_engine(str(model), EngineSettings(backend="trl", **given), optimizer)


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[tuple[Any, Any]]:
    """The torch engine and TRL's, a step away from their reference. These tests leave their weights
    as they are."""
    engines = build("torch", tiny_model), build("trl", tiny_model)
    for engine in engines:
        engine.keep_reference()
        train(engine, made_up(), 1)
    yield engines


@pytest.fixture(scope="module")
def sampled(pair: tuple[Any, Any]) -> Rollouts:
    sampling = Sampling(14, 0.7, stop_ids=(17, 4))
    one, other = (engine.generate(PROMPTS, GROUP, sampling, 7, WANTED) for engine in pair)
    np.testing.assert_array_equal(one.tokens, other.tokens)
    return one


def gradient(model: Any) -> dict[str, FloatArray]:
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters() if p.requires_grad}


def assert_same_step(pair: tuple[Any, Any], update: Update) -> None:
    torch, trl = pair
    one, other = torch.gradient(update), trl.gradient(update)
    assert one.count > 0
    assert abs(one.loss - other.loss) < CLOSE
    assert (one.clipped, one.count) == (other.clipped, other.count)
    assert abs(one.kl - other.kl) < CLOSE
    np.testing.assert_allclose(one.logp, other.logp, atol=CLOSE)
    expected, found = gradient(torch.model), gradient(trl.trained)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=CLOSE, err_msg=name)


def test_the_trainer_leaves_the_models_configuration(pair: tuple[Any, Any]) -> None:
    """An export has it."""
    torch, trl = pair
    for name in ("config", "generation_config"):
        expected, found = (getattr(x, name).to_dict() for x in (torch.model, trl.trained))
        assert found == expected


def test_a_checkpoint_before_any_update_is_read_back(tiny_model: Path, tmp_path: Path) -> None:
    """Steps without a signal leave AdamW without moments."""
    engine = build("trl", tiny_model)
    engine.save(tmp_path)
    engine.restore(tmp_path)


METHODS: tuple[dict[str, Any], ...] = (
    {"name": "ict", "keep": 0.3, "scope": "response"},
    {"name": "ict", "keep": 0.3, "scope": "group"},
    {"name": "ict", "keep": 0.3, "scope": "batch", "advantage_power": 0.1},
    {"name": "random", "keep": 0.3},
    {"name": "frequent", "keep": 0.3},
    {"name": "kl", "keep": 0.3},
    {"name": "wasserstein", "keep": 0.3},
    {"name": "entropy20"},
    {"name": "stapo", "prob_below": 0.3},
    {"name": "clip_cov", "low": -9.0, "high": 9.0, "ratio": 0.1},
    {"name": "grpo"},
    {"name": "dr_grpo"},
    {"name": "dapo"},
)


def weights_of(method: dict[str, Any], rollouts: Rollouts, advantage: FloatArray) -> FloatArray:
    options = {key: value for key, value in method.items() if key != "name"}
    rule = find_method(method["name"])
    scored = Scored(
        stats=rollouts.stats,
        logp=rollouts.logp,
        advantage=advantage,
        correct=advantage > 0,
        valid=rollouts.valid,
        tokens=rollouts.tokens,
        texts=[""] * len(rollouts),
        group=GROUP,
        rng=np.random.default_rng(3),
    )
    kept = rule.rule(scored, rule.options(**options)).kept
    return normalise(kept, rollouts.valid, rule.normalisation, 20)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(map(str, m.values())))
def test_a_method_has_the_torch_engines_loss_and_gradient(
    pair: tuple[Any, Any], sampled: Rollouts, method: dict[str, Any]
) -> None:
    A = advantages(sampled)
    weights = weights_of(method, sampled, A)
    assert_same_step(pair, Update(sampled, weights, A, Objective(temperature=0.7)))


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("signed", [False, True])
def test_clipping_kl_and_signed_weights_too(
    pair: tuple[Any, Any], sampled: Rollouts, kl: float, signed: bool
) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=sampled.logp.shape) * 0.3
    old = np.where(sampled.valid, sampled.logp + noise, 0).astype(np.float32)
    weights = sparse_weights(sampled)
    if signed:
        weights = weights * np.where(rng.random(weights.shape) < 0.5, -1, 1).astype(np.float32)
    objective = Objective(0.1, 0.3, kl=kl, temperature=0.7)
    update = Update(sampled, weights, advantages(sampled), objective, old)
    assert_same_step(pair, update)


def test_with_three_policies_the_step_is_the_plain_one(tiny_model: Path, tmp_path: Path) -> None:
    """Of pi, pi_old and the reference, no two are equal."""
    old, objective = off_policy(made_up(), tiny_model), Objective(0.1, 0.5, kl=0.3)
    against_dense(make_trl, tiny_model, tmp_path, objective, old_logp=old)


def test_adapters_and_smaller_passes_too(
    tiny_model: Path, sampled: Rollouts, tmp_path: Path
) -> None:
    torch, trl = build("torch", tiny_model, LORA), build("trl", tiny_model, LORA)
    trl.budget.tokens = 40
    for n, engine in enumerate((torch, trl)):
        engine.keep_reference()
        objective = replace(PLAIN, kl=0.2)
        for seed in (1, 2):
            A = advantages(sampled, seed)
            engine.update(Update(sampled, sparse_weights(sampled), A, objective), LR)
        (tmp_path / str(n)).mkdir()
        engine.save(tmp_path / str(n))
    assert apart(*(tmp_path / str(n) / "weights.safetensors" for n in (0, 1))) < CLOSE
    torch.restore(tmp_path / "1")  # a checkpoint is of both engines


@pytest.mark.parametrize(
    "setting",
    [{"entropy": 0.01}, {"method": "kl_cov"}, {"method": "lp_reg"}, {"clip": {"on": "tv"}}],
)
def test_what_trls_loss_cannot_express_is_refused_and_names_the_torch_engine(
    setting: dict[str, Any],
) -> None:
    def recipe(backend: str) -> Any:
        table = {
            "model": "builtin:chain",
            "task": "chain",
            "method": "ict",
            "steps": 1,
            "engine": {"backend": backend},
        }
        return check(table | setting, "test")

    recipe_notes(recipe("torch"))
    with pytest.raises(UserError) as refused:
        recipe_notes(recipe("trl"))
    assert "TRL's loss has no place for" in refused.value.message
    assert "--backend torch" in refused.value.hint


def test_another_trl_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ictcli_trl import hooks
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Other:
        def _compute_loss(self, model: Any, batch: Any) -> None: ...

    assert hooks.misfit("1.16.3", GRPOTrainer) == ""
    assert "it is 1.17.0, and ictcli knows 1.16" in hooks.misfit("1.17.0", GRPOTrainer)
    assert "_compute_loss is another" in hooks.misfit("1.16.0", Other)
    hooks.trainer_class.cache_clear()
    monkeypatch.setattr(hooks, "version", lambda name: "2.0.0")
    with pytest.raises(EngineMissingError, match=r"it is 2\.0\.0"):
        hooks.trainer_class()


def apart(one: Path, other: Path) -> float:
    from ictcli_torch.files import read_arrays

    first, second = read_arrays(one), read_arrays(other)
    assert first.keys() == second.keys()
    return max(float((first[name] - second[name]).abs().max()) for name in first)
