"""What ranks say to each other, and what is known of a launch before it begins."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.engine.budget import Budget
from ictcli.engine.distributed import DataParallel
from ictcli.engine.messages import packed, unpacked
from ictcli.engine.models import locate
from ictcli.planning.preflight import recipe_notes
from ictcli.ranks import find_launch
from ictcli.recipe.load import check
from ictcli.recipe.tables import EngineSettings

from .conftest import made_up


def test_processes_that_find_other_weights_are_refused(tiny_model: Path) -> None:
    def found_beside(other: Callable[[Any], Any]) -> None:
        ranks = SimpleNamespace(gather=lambda own: [own, other(own)])
        source = locate(str(tiny_model), trains=True)
        engine: Any = SimpleNamespace(source=source, ranks=ranks, base="")
        DataParallel.check_same(engine)

    found_beside(list)
    with refused("have loaded different weights"):
        found_beside(lambda own: [own[0][::-1], ""])


def test_all_work_within_the_budget_of_the_rank_that_shrank_most() -> None:
    """Again, until none had to shrink; what came of a larger one does not count."""
    found = iter([[16, 256], [16, 128], [16, 128]])
    budget, said = Budget(EngineSettings(micro_tokens=64), lambda error: False), list[str]()
    budget.say = said.append
    ranks = SimpleNamespace(gather=lambda own: [own, [next(found), "another's"]])
    engine: Any = SimpleNamespace(budget=budget, ranks=ranks)
    own, other = DataParallel.agreed(engine, lambda: (budget.tokens, budget.rows))
    assert (own, other) == ((16, 128), "another's")
    assert len(said) == 2 and "ran out in another process" in said[0]


RANKED = {"RANK": "0", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "MASTER_ADDR": "here"}


def launch_of(environment: dict[str, str]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        return find_launch()


def test_a_launch_is_known_by_its_environment() -> None:
    found = launch_of(RANKED)
    assert found and (found.size, found.local) == (8, 3)
    for none in ({}, RANKED | {"WORLD_SIZE": "1"}, {"RANK": "0", "WORLD_SIZE": "8"}):
        assert launch_of(none) is None


def recipe(**engine: Any) -> Any:
    table: dict[str, Any] = {"model": "builtin:chain", "task": "chain", "steps": 1}
    return check(table | {"method": "grpo", "kl": 0.1, "engine": engine}, "test")


VLLM = {"sampler": "vllm", "device": "cpu"}


@pytest.mark.parametrize(
    ("engine", "about"),
    [
        ({"shard": True, "backend": "mlx"}, "engine.shard"),
        (VLLM | {"backend": "mlx"}, "needs the torch engine"),
        (VLLM | {"load_in_4bit": True}, "needs the torch engine"),
    ],
)
def test_settings_an_engine_cannot_follow_are_refused(engine: dict[str, Any], about: str) -> None:
    with refused(about):
        recipe_notes(recipe(**{"backend": "torch", **engine}))


def test_a_message_arrives_as_it_was_sent_and_is_never_code() -> None:
    sent = {"rollouts": made_up(), "plain": [1, 0.5, None, "x"], "bytes": b"\x00\xff"}
    got = unpacked(packed(sent))
    assert got["plain"] == sent["plain"] and got["bytes"] == sent["bytes"]
    np.testing.assert_array_equal(got["rollouts"].tokens, made_up().tokens)
    assert got["rollouts"].tokens.dtype == made_up().tokens.dtype
    blob = packed(sent)
    foreign = blob.replace(b"ictcli.types:Rollouts", b"subprocess:Popen     ")
    with pytest.raises(AssertionError, match="subprocess:Popen"):
        unpacked(foreign)
