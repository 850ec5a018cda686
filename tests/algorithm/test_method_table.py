"""What each method is registered with: normalisation, defaults, source."""

from typing import Any

import pytest
from drawn import BUILT_IN
from pydantic import ValidationError

from ictcli.algorithm.methods import METHODS, find_method
from ictcli.algorithm.weights import Normalisation

PUBLISHED: dict[Normalisation, dict[str, dict[str, Any]]] = {
    "sequence": {
        "grpo": {},
        "ict": {"scope": "response", "score": "u", "reference": "position"},
        "kl": {"scope": "response", "reverse": False},
        "wasserstein": {"scope": "response"},
        "random": {"scope": "response"},
        "frequent": {"scope": "response"},
        "nat": {"draw": "prefix", "share": 0.5},
        "sc_grpo": {"quantile": 0.75, "floor": 1e-3},
        "eapo": {"alpha": 0.2, "phi": 2.0},
        "gspo": {"low": 3e-4, "high": 4e-4},
    },
    "kept": {
        "entropy20": {"keep": 0.2},
        "stapo": {"prob_below": 0.002, "entropy_quantile": 0.75},
        "gmts": {"keep": 0.2},
        "rsi": {"low": 0.5, "high": 3.0},
        "quadrants": {"share": 0.2, "bins": ["pos_high", "neg_high"]},
        "rft": {},
    },
    "tokens": {
        "clip_cov": {"ratio": 2e-4, "low": 1.0, "high": 5.0},
        "kl_cov": {"ratio": 2e-4, "coefficient": 1.0},
        "lp_reg": {"share": 0.01, "min_p": 0.02, "coefficient": 1.0},
        "dapo": {},
        "stare": {"share": 0.1, "raise_by": 1.1, "lower_by": 1.0, "target_entropy": 0.3},
        "taco": {"alpha": 0.01, "strength": 0.9},
        "pepo": {"window": 101},
        "tempo": {},
        "maxrl": {},
        "cispo": {"low": 1.0, "high": 4.0},
        "gtpo": {"base": 1.0, "entropy": 0.1, "over": "group"},
    },
    "constant": {"dr_grpo": {}, "wapo": {"bins": ["pos_peak", "pos_valley"]}},
}


def test_every_method_has_its_published_normalisation_and_defaults() -> None:
    assert sorted(name for given in PUBLISHED.values() for name in given) == BUILT_IN
    for normalisation, given in PUBLISHED.items():
        for name, options in given.items():
            assert METHODS[name].normalisation == normalisation
            assert options.items() <= METHODS[name].options().model_dump().items()


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
