"""The PyTorch and the MLX engine side by side, in float32: the same numbers up to rounding."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.algorithm.methods import Scored, find_method
from ictcli.algorithm.objective import Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine import build_engine
from ictcli.engine.models import BUILTIN
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from ictcli.seeds import generator
from ictcli.tasks import find_task
from ictcli.types import FloatArray, Rollouts, Sampling, UpdateReport

from .conftest import ENGINES, PROMPTS, WANTED, made_up, require
from .oracle import Oracle, log_softmax
from .test_stats import LOOSE
from .test_update_dense import DECAYING
from .training import LR, PLAIN, SMOOTH, advantages, logp_of, train, weights_of

SEED, GROUP = 3, 6
RAW = OptimizerSettings(eps=1e6, clip_norm=1e6)
RAW_LR = 1e9
"""AdamW whose first step is 1000 times the gradient: eps is far above every gradient."""


def make(name: str, folder: Path, optimizer: OptimizerSettings | None = None) -> Any:
    require(name)
    settings = EngineSettings(backend=name, device="cpu", dtype="float32", threads=1)
    return build_engine(str(folder), settings, optimizer or OptimizerSettings())


@dataclass(frozen=True)
class Case:
    """A model, prompts for it, and both engines with it loaded. Shared by tests that only read."""

    folder: Path
    prompts: Sequence[Sequence[int]]
    max_tokens: int
    engines: dict[str, Any]

    def sampling(self, **more: Any) -> Sampling:
        stop_ids = self.engines["torch"].stop_ids
        given: dict[str, Any] = {"stop_ids": stop_ids, **more}
        return Sampling(self.max_tokens, **given)

    def sample(self, sampling: Sampling, wanted: Sequence[str] = ()) -> list[Rollouts]:
        """Of each engine, by one seed. Fails where their tokens differ."""
        one, other = (
            engine.generate(self.prompts, GROUP, sampling, SEED, wanted)
            for engine in self.engines.values()
        )
        T = min(one.tokens.shape[1], other.tokens.shape[1])
        parted = np.argwhere(one.tokens[:, :T] != other.tokens[:, :T]).tolist()
        if parted:
            row, t = min(parted, key=lambda place: place[1])
            pytest.fail(self.tie(one, row, t, sampling))
        np.testing.assert_array_equal(one.lengths, other.lengths)
        np.testing.assert_array_equal(one.finished, other.finished)
        return [one, other]

    def tie(self, rollouts: Rollouts, row: int, t: int, sampling: Sampling) -> str:
        """How near the draw of a token was to a step of each engine's CDF."""
        shape = (len(rollouts), sampling.max_tokens)
        u = float(generator(SEED, "uniforms").random(shape, dtype=np.float32)[row, t])
        where = np.zeros(rollouts.tokens.shape, dtype=bool)
        where[row, t] = True
        steps = []
        for engine in self.engines.values():
            logits = engine.logits(rollouts, where)[0].astype(np.float64)
            cdf = np.exp(log_softmax(logits / (sampling.temperature or 1.0))).cumsum()
            steps.append(float(cdf[np.abs(cdf - u).argmin()]))
        return (
            f"Row {row} parts at token {t}, drawn by u = {u:.9f}. Before any cut, the steps of the "
            f"CDFs nearest to it are {steps[0]:.9f} and {steps[1]:.9f}."
        )


@pytest.fixture(scope="module", params=["chain", "tied", "untied"])
def case(request: pytest.FixtureRequest, tiny_model: Path, untied_model: Path) -> Case:
    """The built-in model with problems of its own; random ones, tied (with GQA) and untied."""
    folder = {"chain": BUILTIN["chain"], "tied": tiny_model, "untied": untied_model}[request.param]
    engines = {name: make(name, folder) for name in ENGINES}
    if request.param != "chain":
        return Case(folder, PROMPTS, 14, engines)
    problems = find_task("chain").batch(0, 1, 5)
    prompts = [engines["torch"].tokenizer(problem.prompt)["input_ids"] for problem in problems]
    assert len(set(map(len, prompts))) > 1
    return Case(folder, prompts, 40, engines)


@pytest.fixture(scope="module")
def sampled(case: Case) -> list[Rollouts]:
    return case.sample(case.sampling(), WANTED)


@pytest.mark.parametrize(
    "how",
    [{}, {"temperature": 0.6}, {"temperature": 1.5, "top_p": 0.8}, {"top_k": 3}, {"stop_ids": ()}],
    ids=["T=1", "T=0.6", "top_p", "top_k", "to the limit"],
)
def test_the_same_seed_samples_the_same_tokens(case: Case, how: dict[str, Any]) -> None:
    found, _ = case.sample(case.sampling(**how))
    assert len(np.unique(found.tokens, axis=0)) > len(case.prompts)


@pytest.mark.parametrize("name", WANTED)
def test_statistics_agree(sampled: list[Rollouts], name: str) -> None:
    one, other = (rollouts.stats[name] for rollouts in sampled)
    assert np.ptp(one) > 0.05
    np.testing.assert_allclose(other, one, atol=LOOSE.get(name, 1e-5), rtol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probabilities_agree(case: Case, sampled: list[Rollouts], temperature: float) -> None:
    np.testing.assert_allclose(sampled[1].logp, sampled[0].logp, atol=2e-5)
    for rollouts in (sampled[0], made_up()):
        one, other = (logp_of(e, rollouts, temperature) for e in case.engines.values())
        np.testing.assert_allclose(other, one, atol=2e-5 / temperature, rtol=1e-5)  # of the logits


@pytest.mark.parametrize("scope", ["response", "group", "batch"])
@pytest.mark.parametrize("keep", [0.1, 0.3])
def test_ict_keeps_the_same_tokens(sampled: list[Rollouts], scope: str, keep: float) -> None:
    """Chosen as a step chooses them. A message names the scores that tie where it differs."""
    one, other = (kept_by_ict(rollouts, scope, keep) for rollouts in sampled)
    assert 0 < one.sum() < sampled[0].lengths.sum()
    u = [rollouts.stats["uniqueness"] for rollouts in sampled]
    parted = [
        f"row {r}, token {t}: kept by {'torch' if one[r, t] else 'mlx'} alone, "
        f"u = {u[0][r, t]:.9g} and {u[1][r, t]:.9g}"
        for r, t in np.argwhere(one != other).tolist()
    ]
    assert not parted, "\n".join(parted)


def kept_by_ict(rollouts: Rollouts, scope: str = "response", keep: float = 0.2) -> np.ndarray:
    ict = find_method("ict")
    scored = Scored(
        stats=rollouts.stats,
        logp=rollouts.logp,
        advantage=np.ones(len(rollouts)),
        correct=np.ones(len(rollouts), dtype=bool),
        valid=rollouts.valid,
        tokens=rollouts.tokens,
        texts=[""] * len(rollouts),
        group=rollouts.group,
        rng=generator(0, "select"),
    )
    return np.asarray(ict.rule(scored, ict.options(scope=scope, keep=keep)).kept)  # pyright: ignore


@pytest.fixture(scope="module")
def batch(case: Case, sampled: list[Rollouts]) -> tuple[Rollouts, FloatArray]:
    """Rollouts to train on, and the weights of what ICT keeps of them. Without the pad token, whose
    embedding transformers gives no gradient where it is an input."""
    rollouts = sampled[0]
    weights = normalise(kept_by_ict(rollouts), rollouts.valid, "sequence", case.max_tokens)
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
        engine = make(name, case.folder, RAW)
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
    [(SMOOTH, LR, 1e-5), (DECAYING, LR, 1e-5), (OptimizerSettings(), 3e-4, 1e-4)],
    ids=["smooth", "decaying", "default"],
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
        engine = make(name, case.folder, settings)
        before = weights_of(engine, tmp_path / name / "before")
        for step in range(3):
            assert engine.update(
                Update(rollouts, weights, advantages(rollouts, step), PLAIN), lr
            ).stepped
        found.append(weights_of(engine, tmp_path / name / "after"))
        assert max(np.abs(found[-1][key] - before[key]).max() for key in before) > max(
            lr / 2, 5 * atol
        )
    one, other = found
    assert one.keys() == other.keys()
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, atol=atol, rtol=0, err_msg=name)


@pytest.mark.parametrize("writer", ENGINES)
def test_an_export_of_one_loads_in_the_other(
    case: Case, sampled: list[Rollouts], tmp_path: Path, writer: str
) -> None:
    reader = ENGINES[1 - ENGINES.index(writer)]
    trained = make(writer, case.folder, SMOOTH)
    train(trained, sampled[0], 2)
    trained.export(tmp_path)
    alike(trained, make(reader, tmp_path), sampled[0])


def alike(one: Any, other: Any, rollouts: Rollouts) -> None:
    """The same log-probabilities and stop tokens."""
    assert other.stop_ids == one.stop_ids
    assert other.context == one.context
    np.testing.assert_allclose(
        logp_of(other, rollouts), logp_of(one, rollouts), atol=1e-5, rtol=1e-6
    )


ROPE = {
    "theta": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 2.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
}


@pytest.fixture(params=list(ROPE))
def rotary_model(request: pytest.FixtureRequest, tiny_model: Path, tmp_path: Path) -> Path:
    """The tied model with another theta, saved as transformers 5 does: `rope_parameters` alone."""
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    folder = tmp_path / "rotary"
    config = AutoConfig.from_pretrained(tiny_model)
    config.rope_parameters = {"rope_theta": 50.0, **ROPE[request.param]}
    AutoModelForCausalLM.from_pretrained(tiny_model, config=config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert written["rope_parameters"]["rope_theta"] == 50.0 and "rope_theta" not in written
    return folder


@pytest.mark.parametrize("writer", ENGINES)
def test_rotary_settings_are_kept(
    rotary_model: Path, tiny_model: Path, tmp_path: Path, writer: str
) -> None:
    """By both engines as they load, and on the way from one through an export to the other."""
    rollouts = made_up()
    wanted = Oracle(rotary_model).logp(rollouts, 1.0)
    assert np.abs(wanted - Oracle(tiny_model).logp(rollouts, 1.0)).max() > 0.1
    engine = make(writer, rotary_model)
    np.testing.assert_allclose(logp_of(engine, rollouts), wanted, atol=1e-5, rtol=1e-5)
    engine.export(tmp_path)
    for name in ENGINES:
        alike(engine, make(name, tmp_path), rollouts)
    np.testing.assert_allclose(Oracle(tmp_path).logp(rollouts, 1.0), wanted, atol=1e-5, rtol=1e-5)
