"""The PyTorch and the MLX engine side by side, in float32: the same numbers up to rounding."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.objective import Objective
from ictcli.algorithm.selection import Scope, top_share
from ictcli.algorithm.weights import normalise
from ictcli.engine.models import BUILTIN
from ictcli.engine.update import Update
from ictcli.recipe.tables import OptimizerSettings
from ictcli.tasks import find_task
from ictcli.types import FloatArray, Rollouts, Sampling, UpdateReport
from tests.cases import first

from .conftest import ENGINES, PROMPTS, WANTED, build, made_up
from .oracle import Oracle
from .test_score import LOOSE
from .test_update_dense import DECAYING
from .training import LR, PLAIN, SMOOTH, advantages, logp_of, train, weights_of

SEED, GROUP = 3, 6
RAW = OptimizerSettings(eps=1e6, clip_norm=1e6)
RAW_LR = 1e9
"""AdamW whose first step is 1000 times the gradient: eps is far above every gradient."""
SCOPES: tuple[Scope, ...] = ("response", "group", "batch")


@dataclass(frozen=True)
class Case:
    """A model, prompts for it, and both engines with it loaded. Shared by tests that only read."""

    folder: Path
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


@pytest.fixture(scope="module", params=first(["chain", "tied", "untied"], 2))
def case(request: pytest.FixtureRequest, tiny_model: Path, untied_model: Path) -> Case:
    """The built-in model with problems of its own; random ones, tied (with GQA) and untied."""
    folder = {"chain": BUILTIN["chain"], "tied": tiny_model, "untied": untied_model}[request.param]
    engines = {name: build(name, folder) for name in ENGINES}
    if request.param != "chain":
        return Case(folder, PROMPTS, 14, engines)
    problems = find_task("chain").batch(0, 1, 5)
    prompts = [engines["torch"].tokenizer(problem.prompt)["input_ids"] for problem in problems]
    assert len(set(map(len, prompts))) > 1
    return Case(folder, prompts, 40, engines)


@pytest.fixture(scope="module")
def sampled(case: Case) -> list[Rollouts]:
    return case.sample({}, WANTED)


@pytest.mark.parametrize(
    "how",
    [{}, {"temperature": 0.6}, {"temperature": 1.5, "top_p": 0.8}, {"top_k": 3}, {"stop_ids": ()}],
    ids=["T=1", "T=0.6", "top_p", "top_k", "to the limit"],
)
def test_the_same_seed_samples_the_same_tokens(case: Case, how: dict[str, Any]) -> None:
    found, _ = case.sample(how)
    assert len(np.unique(found.tokens, axis=0)) > len(case.prompts)


def test_statistics_and_what_ict_keeps_by_them_agree(sampled: list[Rollouts]) -> None:
    one, other = (rollouts.stats for rollouts in sampled)
    for name in WANTED:
        assert np.ptp(one[name]) > 0.05
        np.testing.assert_allclose(other[name], one[name], atol=LOOSE.get(name, 1e-5), rtol=1e-5)
    for scope, keep in product(SCOPES, (0.1, 0.3)):
        kept = [kept_by_ict(rollouts, scope, keep) for rollouts in sampled]
        assert 0 < kept[0].sum() < sampled[0].lengths.sum()
        assert (kept[0] == kept[1]).all()


def kept_by_ict(rollouts: Rollouts, scope: Scope, keep: float) -> np.ndarray:
    u = rollouts.stats["uniqueness"]
    return top_share(u, rollouts.valid, keep, scope=scope, group=rollouts.group)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_agree(case: Case, sampled: list[Rollouts], temperature: float) -> None:
    np.testing.assert_allclose(sampled[1].logp, sampled[0].logp, atol=2e-5)
    for rollouts in (sampled[0], made_up()):
        one, other = (logp_of(e, rollouts, temperature) for e in case.engines.values())
        np.testing.assert_allclose(other, one, atol=2e-5 / temperature, rtol=1e-5)  # of the logits


@pytest.fixture(scope="module")
def batch(case: Case, sampled: list[Rollouts]) -> tuple[Rollouts, FloatArray]:
    """Rollouts to train on, and the weights of what ICT keeps of them. Without the pad token, whose
    embedding transformers gives no gradient where it is an input."""
    rollouts = sampled[0]
    kept = kept_by_ict(rollouts, "response", 0.2)
    weights = normalise(kept, rollouts.valid, "sequence", case.max_tokens)
    tokens = np.where(rollouts.valid & (rollouts.tokens == 0), 2, rollouts.tokens)
    return replace(rollouts, tokens=tokens.astype(np.int32)), weights


@pytest.mark.parametrize(
    "objective",
    [PLAIN, Objective(0.1, 0.5, temperature=0.6), Objective(entropy=0.1)],
    ids=["plain", "clip,T", "entropy"],
)
def test_gradients_agree(
    case: Case, batch: tuple[Rollouts, FloatArray], tmp_path: Path, objective: Objective
) -> None:
    """Of every tensor: how far one step of `RAW` moved it."""
    (rollouts, weights), old = batch, None
    A = advantages(rollouts)
    if objective.eps_high == 0.5:
        steps = np.random.default_rng(4).choice([-0.6, -0.3, 0.05, 0.3], weights.shape)
        now = logp_of(case.engines["torch"], rollouts, objective.temperature)
        old = (now + steps).astype(np.float32)
    found: list[tuple[UpdateReport, Any]] = []
    for name in ENGINES:
        engine = build(name, case.folder, RAW)
        before = weights_of(engine, tmp_path / name / "before")
        report = engine.update(Update(rollouts, weights, A, objective, old_logp=old), RAW_LR)
        after = weights_of(engine, tmp_path / name / "after")
        moved = {key: (before[key] - after[key]) / (RAW_LR / RAW.eps) for key in before}
        assert report.grad_norm == pytest.approx(norm(*moved.values()), rel=1e-4)
        found.append((report, moved))
    (one, gradients), (other, others) = found
    assert other.grad_norm == pytest.approx(one.grad_norm, rel=1e-4)
    assert other.loss == pytest.approx(one.loss, rel=1e-4, abs=1e-6)
    assert other.clip_fraction == one.clip_fraction
    assert others.keys() == gradients.keys()
    for name, gradient in gradients.items():
        small = 1e-4 * max(norm(gradient), 1e-3 * one.grad_norm)
        assert norm(others[name] - gradient) < small, name


def norm(*arrays: FloatArray) -> float:
    return float(np.sqrt(sum(float((array.astype(np.float64) ** 2).sum()) for array in arrays)))


@pytest.mark.parametrize(
    ("settings", "lr", "atol"),
    [(DECAYING, LR, 1e-5), (OptimizerSettings(), 3e-4, 1e-4)],
    ids=["decaying", "default"],
)
def test_weights_agree_after_three_steps(
    case: Case,
    batch: tuple[Rollouts, FloatArray],
    tmp_path: Path,
    settings: OptimizerSettings,
    lr: float,
    atol: float,
) -> None:
    """With the default eps a step is lr * sign(g) nearly, also where g is little but rounding."""
    rollouts, weights = batch
    found = []
    for name in ENGINES:
        engine = build(name, case.folder, settings)
        before = weights_of(engine, tmp_path / name / "before")
        for step in range(3):
            update = Update(rollouts, weights, advantages(rollouts, step), PLAIN)
            assert engine.update(update, lr).stepped
        found.append(weights_of(engine, tmp_path / name / "after"))
        moved = max(np.abs(found[-1][key] - before[key]).max() for key in before)
        assert moved > max(lr / 2, 5 * atol)
    one, other = found
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, atol=atol, rtol=0, err_msg=name)


@pytest.mark.parametrize("writer", ENGINES)
def test_an_export_of_one_loads_in_the_other(
    case: Case, sampled: list[Rollouts], tmp_path: Path, writer: str
) -> None:
    trained = build(writer, case.folder, SMOOTH)
    train(trained, sampled[0], 2)
    trained.export(tmp_path)
    alike(trained, build(ENGINES[1 - ENGINES.index(writer)], tmp_path), sampled[0])


def alike(one: Any, other: Any, rollouts: Rollouts) -> None:
    """The same log-probabilities and stop tokens."""
    assert (other.stop_ids, other.context) == (one.stop_ids, one.context)
    np.testing.assert_allclose(
        logp_of(other, rollouts), logp_of(one, rollouts), atol=1e-5, rtol=1e-6
    )


ROPE: dict[str, dict[str, Any]] = {
    "default": {},
    "linear": {"factor": 2.0},
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "yarn": {"factor": 4.0},
}


@pytest.mark.parametrize("kind", ROPE)
def test_rotary_settings_are_kept(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """As transformers 5 saves them, in `rope_parameters` alone: by both engines as they load, and
    on the way from each through an export to the other."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder, rollouts = tmp_path / "rotary", made_up()
    config = AutoConfig.from_pretrained(tiny_model)
    original = {"original_max_position_embeddings": 32} if kind in ("llama3", "yarn") else {}
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
