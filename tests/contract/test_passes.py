"""Laws of what forward passes are given: nothing twice, and the head meets what is wanted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ictcli.engine.update import Update
from ictcli.types import ROW_STATS

from .conftest import GROUP, GROUP_STATS, PROMPTS, SAMPLING, WANTED, Make, made_up
from .test_generate import same
from .training import PLAIN, advantages, logp_of, sparse_weights

LONGEST = max(map(len, PROMPTS))


@dataclass
class Passes:
    """What the model's forward passes were given, in order."""

    ids: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    """Shapes of the input ids."""
    places: list[int] = field(default_factory=list[int])
    """How many hidden states the head met."""


@pytest.fixture
def recorded(engine_name: str, make_engine: Make) -> Iterator[Any]:
    """An engine, and its passes."""
    engine: Any = make_engine()
    yield engine, (hooked if engine_name == "torch" else subclassed)(engine.model)


def hooked(model: Any) -> Passes:
    found = Passes()

    def enter(module: Any, args: Any) -> None:
        (ids,) = args
        found.ids.append((len(ids), ids[0].numel()))

    def leave(module: Any, args: Any, logits: Any) -> None:
        found.places.append(logits.numel() // logits.shape[-1])

    model.get_input_embeddings().register_forward_pre_hook(enter)
    model.get_output_embeddings().register_forward_hook(leave)
    return found


def subclassed(model: Any) -> Passes:
    """MLX has no hooks, and calls what a module's class says."""
    from ictcli_mlx.model import find_heads

    found, plain = Passes(), type(model)

    def call(self: Any, ids: Any, *args: Any, **more: Any) -> Any:
        if ids.shape != (1, 1):  # else it only hands states to the head
            found.ids.append(tuple(ids.shape))
        return plain.__call__(self, ids, *args, **more)

    model.__class__ = type("Recorded", (plain,), {"__call__": call})
    for head, method in find_heads(model):
        kind = type(head)

        def see(self: Any, x: Any, kind: Any = kind, method: str = method) -> Any:
            if x.size:
                found.places.append(x.size // x.shape[-1])
            return getattr(kind, method)(self, x)

        head.__class__ = type("Recorded", (kind,), {method: see})
    return found


@pytest.mark.parametrize("elements", [1, 1 << 40])
def test_statistics_pooled_or_at_once_are_the_same(
    engine_name: str, recorded: Any, monkeypatch: pytest.MonkeyPatch, elements: int
) -> None:
    engine, _ = recorded
    wanted = engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED)
    monkeypatch.setattr(f"ictcli_{engine_name}.sample.PENDING_ELEMENTS", elements)
    same(engine.generate(PROMPTS, GROUP, SAMPLING, 3, WANTED), wanted, atol=1e-6)


@pytest.mark.parametrize("gone", [1, 8, 1_000_000], ids=["never", "one in eight", "at once"])
def test_statistics_cost_no_forward_pass(
    engine_name: str, recorded: Any, monkeypatch: pytest.MonkeyPatch, gone: int
) -> None:
    """One prefill a prompt, then a token a row for the rows still running; nothing else. With MLX
    ended rows leave when they are one in `gone`, and the pass behind a row's last token is begun
    before anyone has read it."""
    engine, passes = recorded
    if engine_name == "mlx":
        monkeypatch.setattr("ictcli_mlx.sample.GONE", gone)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 3, (*ROW_STATS, *GROUP_STATS))
    running = found.valid.sum(axis=0)
    assert running.min() < running.max()
    if engine_name == "torch":
        assert passes.ids[0] == (len(PROMPTS), LONGEST) and passes.places[0] == len(PROMPTS)
        assert passes.ids[1:] == [(alive, 1) for alive in running[1:]]
        return
    running = running[: SAMPLING.max_tokens - 1]
    assert passes.ids[:2] == [(len(PROMPTS), LONGEST - 1), (len(PROMPTS), 1)]
    assert all(length == 1 for _, length in passes.ids[2:])
    lanes = np.array([rows for rows, _ in passes.ids[2:]])
    assert len(lanes) == len(running)
    assert (np.diff(lanes) <= 0).all() and (lanes >= running).all()
    assert (gone * (lanes - running) < lanes).all()
    assert gone != 1 or (lanes == len(found)).all()


def test_the_head_meets_weighted_places_only(engine_name: str, recorded: Any) -> None:
    """And a row runs no further than its last weight; PyTorch's are packed without padding."""
    engine, passes = recorded
    rollouts = made_up()
    weights, A = sparse_weights(rollouts), advantages(rollouts)
    weights[:, 6:] = 0
    engine.passes.share = False
    report = engine.update(Update(rollouts, weights, A, PLAIN), 0.0)
    wanted = (weights != 0) & (A != 0)[:, None]
    assert sum(passes.places) == wanted.sum()
    ran = sum(rows * length for rows, length in passes.ids)
    if engine_name == "torch":
        ends = {row: np.flatnonzero(wanted[row])[-1] for row in np.flatnonzero(wanted.any(axis=1))}
        assert ran == sum(len(rollouts.prompt_of(int(row))) + end for row, end in ends.items())
        assert all(rows == 1 for rows, _ in passes.ids) and ran < report.tokens
        return
    assert all(length <= LONGEST + 6 for _, length in passes.ids)
    assert report.tokens == ran


def test_logits_of_a_pass_are_bounded(recorded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, passes = recorded
    rollouts = made_up()
    wanted = logp_of(engine, rollouts)
    passes.places.clear()
    monkeypatch.setattr(engine.passes, "chunk", 12)
    np.testing.assert_allclose(logp_of(engine, rollouts), wanted, atol=1e-5)
    assert len(passes.places) > 4 and max(passes.places) <= 12
