"""Which numbers a recipe's checkpoints can be judged by."""

import pytest

from ictcli.errors import UserError
from ictcli.recipe import check

LEAST = {"model": "m", "task": "chain", "method": "ict", "steps": 40}
REFUSED = {
    "eval/pass@1": "between the steps",
    "eval/pass@9": "eval/pass@1, eval/pass@4",
    "rewrad": "did you mean reward",
    "-kl": "kl > 0",
    "sampler_gap": "update.minibatch",
    "probe_error": "record.probe_every",
    "": "checkpoint.best",
}


@pytest.mark.parametrize("best", REFUSED)
def test_a_metric_that_is_never_recorded_is_refused(best: str) -> None:
    with pytest.raises(UserError) as caught:
        check({**LEAST, "checkpoint": {"best": best}}, "r.toml")
    assert REFUSED[best] in f"{caught.value.message} {caught.value.hint}"


def test_a_metric_that_is_recorded_is_taken() -> None:
    more = {
        "kl": 0.1,
        "eval": {"every": 10},
        "record": {"probe_every": 5},
        "update": {"minibatch": 2},
    }
    for best in ("eval/pass@4", "-entropy", "kl", "sampler_gap", "probe_error", "uniqueness"):
        assert check({**LEAST, **more, "checkpoint": {"best": best}}, "r").checkpoint.best == best
