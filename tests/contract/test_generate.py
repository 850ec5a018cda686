"""Laws of `generate`: shapes, what the numbers mean, and what results depend on."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused
from safetensors.numpy import load_file, save_file
from scipy import stats as scipy_stats

from ictcli.algorithm.objective import Objective
from ictcli.algorithm.quantities import statistic
from ictcli.engine import Engine
from ictcli.engine.sampling import NotFiniteError
from ictcli.engine.update import Update
from ictcli.types import IntArray, Rollouts, Sampling

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make, made_up
from .oracle import Oracle, log_softmax, nucleus


def test_a_row_ends_with_its_first_stop_token_and_zeros_follow(rollouts: Rollouts) -> None:
    assert rollouts.finished.any()
    assert len(set(rollouts.lengths.tolist())) > 2
    for row, length in enumerate(rollouts.lengths):
        stops = np.isin(rollouts.tokens[row, :length], SAMPLING.stop_ids)
        assert not stops[:-1].any()
        assert stops[-1] == rollouts.finished[row]
        assert rollouts.finished[row] or length == SAMPLING.max_tokens
    for array in (rollouts.tokens, rollouts.logp, *rollouts.stats.values()):
        assert (array[~rollouts.valid] == 0).all()


def test_logp_is_the_models_at_the_sampling_temperature(
    rollouts: Rollouts, oracle: Oracle, temperature: float
) -> None:
    wanted = oracle.logp(rollouts, temperature)
    np.testing.assert_allclose(rollouts.logp, wanted, atol=1e-5 / temperature)  # of the logits


def test_the_seed_decides(tiny_engine: Engine) -> None:
    one, again, other = (
        tiny_engine.generate(PROMPTS, GROUP, SAMPLING, seed, WANTED) for seed in (1, 1, 2)
    )
    same(one, again, atol=1e-6)
    assert not np.array_equal(one.tokens[:, :3], other.tokens[:, :3])


@pytest.mark.parametrize(
    ("limit", "budget"),
    [(SAMPLING.max_tokens, {"rows": GROUP}), (5, {"rows": 2 * GROUP + 1, "micro_tokens": 64})],
)
def test_neither_the_limit_nor_the_budget_changes_what_is_sampled(
    make_engine: Make,
    model: Path,
    rollouts: Rollouts,
    temperature: float,
    limit: int,
    budget: dict[str, int],
) -> None:
    """Up to the shorter of two limits."""
    sampling = replace(SAMPLING, temperature=temperature, max_tokens=limit)
    found = make_engine(model, **budget).generate(PROMPTS, GROUP, sampling, 7, WANTED)
    shorter = min(limit, SAMPLING.max_tokens)
    same(cut(found, shorter), cut(rollouts, shorter))


def cut(rollouts: Rollouts, limit: int) -> Rollouts:
    """As with `limit` for max_tokens, without what is known of whole responses alone."""
    return replace(
        rollouts,
        tokens=rollouts.tokens[:, :limit],
        lengths=np.minimum(rollouts.lengths, limit),
        finished=rollouts.finished & (rollouts.lengths <= limit),
        logp=rollouts.logp[:, :limit],
        stats={
            name: values[:, :limit]
            for name, values in rollouts.stats.items()
            if statistic(name).mean_over == "position"
        },
    )


@pytest.mark.parametrize("rows", [GROUP, 512])
def test_tokens_are_heard_as_they_are_drawn_and_who_hears_them_may_stop_it(
    make_engine: Make, rows: int
) -> None:
    heard: list[list[int]] = [[] for _ in range(len(PROMPTS) * GROUP)]

    def hear(t: int, rows: IntArray, tokens: IntArray) -> None:
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            assert len(heard[row]) == t
            heard[row].append(token)

    def stop(t: int, rows: IntArray, tokens: IntArray) -> None:
        if t == 3:
            raise KeyboardInterrupt

    engine = make_engine(rows=rows)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7, on_tokens=hear)
    assert heard == [found.tokens[row, :T].tolist() for row, T in enumerate(found.lengths)]
    with pytest.raises(KeyboardInterrupt):
        engine.generate(PROMPTS, GROUP, SAMPLING, 7, on_tokens=stop)
    same(found, engine.generate(PROMPTS, GROUP, SAMPLING, 7), atol=0)


def test_padding_changes_nothing(engine: Engine, rollouts: Rollouts, temperature: float) -> None:
    """Copies of one prompt need no padding; its own rows draw the same uniform numbers."""
    sampling = replace(SAMPLING, temperature=temperature)
    for place, prompt in enumerate(PROMPTS):
        copies = engine.generate([prompt] * len(PROMPTS), GROUP, sampling, 7, WANTED)
        same(copies.groups(place, place + 1), rollouts.groups(place, place + 1))


@pytest.mark.parametrize("sampling", [Sampling(10, 0.0), Sampling(10, 0.8, top_k=1)])
def test_greedy_is_argmax_decoding(engine: Engine, oracle: Oracle, sampling: Sampling) -> None:
    sampling = replace(sampling, stop_ids=SAMPLING.stop_ids)
    found = engine.generate(PROMPTS, 2, sampling, 0)
    for row in range(len(found)):
        ids = list(found.prompt_of(row))
        for token in found.tokens[row, : found.lengths[row]]:
            ids.append(int(np.argmax(oracle.sequence_logits(ids)[-1])))
            assert token == ids[-1]
    np.testing.assert_allclose(
        found.logp, oracle.logp(found, sampling.temperature or 1.0), atol=1e-5
    )


@pytest.mark.parametrize(
    "sampling",
    [Sampling(1), Sampling(1, 0.6), Sampling(1, 1.4, top_p=0.8), Sampling(1, 1.4, top_k=5)],
    ids=["T=1", "T=0.6", "top_p", "top_k"],
)
def test_first_tokens_follow_the_models_distribution(
    tiny_engine: Engine, tiny_oracle: Oracle, sampling: Sampling
) -> None:
    """And log pi is of all of it, whatever is cut."""
    prompt, draws = PROMPTS[1], 6000
    found = tiny_engine.generate([prompt], draws, sampling, 11)
    logp = log_softmax(tiny_oracle.sequence_logits(prompt)[-1] / sampling.temperature)
    np.testing.assert_allclose(found.logp[:, 0], logp[found.tokens[:, 0]], atol=2e-5)
    p = np.exp(logp)
    p = np.where(nucleus(p, sampling.top_k, sampling.top_p), p, 0.0)
    p /= p.sum()
    drawn = np.bincount(found.tokens[:, 0], minlength=len(p))
    assert (drawn[p == 0] == 0).all()
    common = p * draws >= 5
    assert common.sum() > 2
    rare = [drawn[~common].sum()], [p[~common].sum() * draws]
    counts = np.concatenate([drawn[common], rare[0]])
    expected = np.concatenate([p[common] * draws, rare[1]])
    keep = expected > 0
    assert scipy_stats.chisquare(counts[keep], expected[keep]).pvalue > 1e-3


def test_what_the_model_gives_no_probabilities_of_is_no_sample(
    make_engine: Make, untied_model: Path, tmp_path: Path
) -> None:
    """Its rows end there and are not heard of, the others are as ever; who can go on gets them."""
    folder = shutil.copytree(untied_model, tmp_path / "broken")
    weights = load_file(folder / "model.safetensors")
    weights["model.embed_tokens.weight"][15] = np.nan
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    heard: set[int] = set()
    engine, whole = (make_engine(each, threads=1) for each in (folder, untied_model))
    for sampling in (SAMPLING, replace(SAMPLING, temperature=0.0)):
        heard.clear()
        with refused("logits are infinite", hint="engine.dtype", kind=NotFiniteError) as caught:
            engine.generate(
                PROMPTS, 2, sampling, 7, on_tokens=lambda t, rows, tokens: heard.update(rows)
            )
        assert isinstance(caught.value, NotFiniteError)
        found = caught.value.rollouts
        reads = np.repeat([15 in prompt for prompt in PROMPTS], 2)
        assert reads.any() and not heard & set(np.flatnonzero(reads))
        assert (found.lengths[reads] == 1).all() and not found.finished[reads].any()
        ended = np.isfinite(found.logp).all(axis=1)
        assert ended.any()
        expected = whole.generate(PROMPTS, 2, sampling, 7)
        for row in np.flatnonzero(ended):
            T = found.lengths[row]
            np.testing.assert_array_equal(found.tokens[row, :T], expected.tokens[row, :T])


def test_a_token_without_a_row_is_refused_by_every_verb_that_reads_tokens(
    make_engine: Make, tiny_model: Path
) -> None:
    """One past the embedding, which MLX would read from the memory behind it."""
    engine, rollouts = make_engine(tiny_model), made_up()
    weights = np.where(rollouts.valid, 1.0, 0.0)
    for other in (
        replace(rollouts, prompts=(*PROMPTS[:-1], (*PROMPTS[-1], 18))),
        replace(rollouts, tokens=np.where(rollouts.tokens == rollouts.tokens[0, 0], 18, 0)),
    ):
        update = Update(other, weights, np.ones(len(other)), Objective())
        verbs: list[Callable[[], Any]] = [
            lambda other=other: engine.score(other, ("logp",)),
            lambda other=other: engine.logits(other, other.valid),
            lambda update=update: engine.update(update, 1e-3),
        ]
        if other.prompts != rollouts.prompts:
            verbs.append(lambda other=other: engine.generate(other.prompts, 2, SAMPLING, 0))
        for verb in verbs:
            with refused("token 18", "18 embeddings", hint="resize_token_embeddings"):
                verb()


def same(found: Rollouts, wanted: Rollouts, atol: float = 2e-5) -> None:
    """The same tokens, and the same figures up to rounding."""
    np.testing.assert_array_equal(found.tokens, wanted.tokens)
    np.testing.assert_array_equal(found.lengths, wanted.lengths)
    np.testing.assert_array_equal(found.finished, wanted.finished)
    np.testing.assert_allclose(found.logp, wanted.logp, atol=atol, rtol=0)
    assert found.stats.keys() == wanted.stats.keys()
    for name, values in found.stats.items():
        loose = 20 * atol if name == "wasserstein" else atol
        np.testing.assert_allclose(values, wanted.stats[name], atol=loose, rtol=0, err_msg=name)
