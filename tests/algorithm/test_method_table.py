"""What each method is registered with: normalisation, defaults, source."""

from typing import Any

import pytest
from drawn import BUILT_IN
from pydantic import ValidationError

from ictcli.algorithm.methods import METHODS, find_method
from ictcli.algorithm.weights import Normalisation
from ictcli.errors import UserError

DEFAULTS: dict[str, tuple[Normalisation, dict[str, Any]]] = {
    "grpo": ("sequence", {}),
    "ict": (
        "sequence",
        {
            "keep": None,
            "scope": "response",
            "advantage_power": 0.0,
            "score": "u",
            "min_entropy": 0.0,
            "reference": "position",
            "max_prob": 1.0,
        },
    ),
    "kl": ("sequence", {"keep": None, "scope": "response", "reverse": False}),
    "wasserstein": ("sequence", {"keep": None, "scope": "response"}),
    "random": (
        "sequence",
        {"keep": None, "scope": "response", "min_entropy": 0.0, "max_prob": 1.0},
    ),
    "frequent": ("sequence", {"keep": None, "scope": "response"}),
    "entropy20": ("kept", {"keep": 0.2}),
    "stapo": ("kept", {"prob_below": 0.002, "entropy_quantile": 0.75}),
    "clip_cov": ("tokens", {"ratio": 2e-4, "low": 1.0, "high": 5.0}),
    "kl_cov": ("tokens", {"ratio": 2e-4, "coefficient": 1.0}),
    "lp_reg": ("tokens", {"share": 0.01, "min_p": 0.02, "coefficient": 1.0}),
    "dr_grpo": ("constant", {}),
    "dapo": ("tokens", {}),
    "nat": ("sequence", {"draw": "prefix", "share": 0.5}),
    "gmts": ("kept", {"keep": 0.2}),
    "rsi": ("kept", {"low": 0.5, "high": 3.0}),
    "stare": (
        "tokens",
        {"share": 0.1, "raise_by": 1.1, "lower_by": 1.0, "target_entropy": 0.3},
    ),
    "wapo": ("constant", {"bins": ["pos_peak", "pos_valley"]}),
    "taco": ("tokens", {"alpha": 0.01, "strength": 0.9}),
    "pepo": ("tokens", {"window": 101}),
    "quadrants": ("kept", {"share": 0.2, "bins": ["pos_high", "neg_high"]}),
    "tempo": ("tokens", {}),
    "maxrl": ("tokens", {}),
    "sc_grpo": ("sequence", {"quantile": 0.75, "floor": 1e-3}),
    "eapo": ("sequence", {"alpha": 0.2, "phi": 2.0}),
    "gspo": ("sequence", {"low": 3e-4, "high": 4e-4}),
    "cispo": ("tokens", {"low": 1.0, "high": 4.0}),
    "rft": ("kept", {}),
    "gtpo": ("tokens", {"base": 1.0, "entropy": 0.1, "over": "group"}),
}


def test_every_method_has_its_published_normalisation_and_defaults() -> None:
    assert sorted(DEFAULTS) == BUILT_IN
    for name, (normalisation, options) in DEFAULTS.items():
        method = METHODS[name]
        assert (method.normalisation, method.options().model_dump()) == (normalisation, options)


def test_which_leave_the_advantage_unscaled_and_only_ict_and_its_controls_warm_up() -> None:
    unscaled = {name for name in BUILT_IN if not METHODS[name].scaled_advantage}
    warm = {name for name in BUILT_IN if METHODS[name].dense_warmup}
    assert unscaled == {"dr_grpo", "maxrl", "wapo"}
    assert warm == {"ict", "kl", "wasserstein", "random", "frequent"}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_method_has_a_source_a_summary_and_refuses_unknown_options(name: str) -> None:
    method = find_method(name)
    assert method.name == name
    assert method.source
    assert method.summary.endswith(".")
    assert "\n" not in method.summary
    with pytest.raises(ValidationError):
        method.options.model_validate({"no_such_option": 1})


def test_an_unknown_method_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UserError, match="entropy20"):
        find_method("entropy2")
