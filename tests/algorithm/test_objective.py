"""The objective of one token: its laws, and the losses and gradients that TRL recorded."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ictcli.algorithm.objective import Objective, k3, surrogate, was_clipped
from ictcli.algorithm.weights import Normalisation, normalise

torch = pytest.importorskip("torch")

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "golden" / "trl_losses.json").read_text()
)
CASES: dict[str, Any] = {case["name"]: case for case in GOLDEN["cases"]}
NORMALISATION: dict[str, Normalisation] = {
    "grpo": "sequence",
    "dapo": "tokens",
    "bnpo": "tokens",
    "dr_grpo": "constant",
}

advantages = st.floats(-3, 3, allow_subnormal=False)
clips = st.tuples(st.floats(0.05, 0.9), st.floats(0.05, 0.9))


def inputs(name: str) -> Any:
    return torch.tensor(GOLDEN["inputs"][name], dtype=torch.float64)


SETUPS = ("on_policy", "clip", "clip_kl")


@pytest.mark.parametrize("name", [f"{kind}-{setup}" for kind in NORMALISATION for setup in SETUPS])
def test_loss_and_gradient_are_those_that_trl_recorded(name: str) -> None:
    case = CASES[name]
    mask = np.array(GOLDEN["inputs"]["mask"], dtype=bool)
    longest = GOLDEN["normalisers"]["max_completion_length"]
    w = torch.from_numpy(normalise(mask, mask, NORMALISATION[case["loss_type"]], longest)).double()
    logp = inputs("logps").requires_grad_()
    old = inputs("old_logps") if case["old"] else logp.detach()
    A = inputs("advantages")[:, None].expand_as(logp)
    objective = Objective(case["eps_low"], case["eps_high"], kl=case["beta"])

    psi = surrogate(torch, logp, old, A, objective)
    if case["ref"]:
        psi = psi - objective.kl * k3(torch, logp, inputs("ref_logps"))
    loss = -(w * psi).sum()
    (gradient,) = torch.autograd.grad(loss, logp)

    assert float(loss.detach()) == pytest.approx(case["loss"], rel=1e-6)
    np.testing.assert_allclose(gradient.numpy(), case["grad"], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("on", ["ratio", "tv"])
@example(-0.7, -1.2, 1.0, (0.1, 0.3))  # between the bounds with tv
@example(-1.2, -0.7, -1.0, (0.3, 0.1))
@example(-1.0, -1.2, 1.0, (0.1, 0.3))  # and by the ratio
@example(-1.2, -1.0, -1.0, (0.3, 0.1))
@given(st.floats(-6, 0), st.floats(-6, 0), advantages, clips)
def test_the_gradient_is_gone_exactly_where_the_ratio_or_the_probability_has_moved_too_far(
    on: Any, now: float, before: float, A: float, clip: tuple[float, float]
) -> None:
    """As the published losses: else A rho, with tv where pi - pi_old is in bounds."""
    low, high = clip
    moved = math.exp(now - before) - 1 if on == "ratio" else math.exp(now) - math.exp(before)
    assume(abs(A) > 1e-3 and min(abs(moved - high), abs(moved + low)) > 1e-9)
    objective = Objective(low, high, clip_on=on)
    logp = torch.tensor([now], dtype=torch.float64, requires_grad=True)
    old, advantage = torch.full_like(logp.detach(), before), torch.full_like(logp.detach(), A)
    (gradient,) = torch.autograd.grad(surrogate(torch, logp, old, advantage, objective).sum(), logp)
    kept = moved <= high if A > 0 else moved >= -low
    assert float(gradient) == pytest.approx(A * math.exp(now - before) if kept else 0.0)
    assert bool(was_clipped(torch, logp, old, advantage, objective)) != kept


@given(st.floats(-20, 20), st.sampled_from([np.float32, np.float64]))
def test_k3_is_never_negative_and_zero_on_equal_policies(d: float, kind: type) -> None:
    assert k3(np, kind(0), kind(d)) >= 0
    assert k3(np, kind(d), kind(d)) == 0
    assert float(k3(torch, torch.zeros(1), torch.tensor([d]))) >= 0


@given(st.floats(-1e-3, 1e-3))
def test_k3_keeps_its_digits_near_zero_in_float32(d: float) -> None:
    d = float(np.float32(d))
    found = float(k3(torch, torch.zeros(1), torch.tensor([d])))
    assert found == pytest.approx(d * d / 2 + d**3 / 6, abs=2e-7 * abs(d), rel=1e-6)
