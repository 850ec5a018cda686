"""Settings typed on the command line, and metrics that checkpoints can be judged by."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from ictcli.errors import UserError
from ictcli.recipe import Recipe, apply_overrides, check, load_recipe
from ictcli.recipe.data import HubSettings
from ictcli.recipe.tables import AdapterSettings

RECIPE = """
model = "builtin:chain"
task = "chain"
method = {name = "stapo", prob_below = 0.1}
steps = 1
max_tokens = 10
reward = {verifier = "math", length = 0.5, overlong_buffer = 5}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE)
    return path


@pytest.mark.parametrize(
    "typed",
    [
        ("method.keep=0.33", "method=ict", "method.scope=group"),
        ("reward.pattern=(x)", "reward=integer"),
        ("eval.n=2", "eval.k=[1,2]", "seed=3"),
    ],
    ids=" ".join,
)
def test_the_order_in_which_different_keys_are_typed_does_not_matter(
    recipe: Path, typed: tuple[str, ...]
) -> None:
    first, *others = (load_recipe(recipe, order) for order in permutations(typed))
    assert others == [first] * len(others)
    assert first != load_recipe(recipe)


@pytest.mark.parametrize(
    ("typed", "path"),
    [
        ("lr=0", "lr"),
        ("eval.k=[9]", "eval"),
        ("method.scope=word", "method.scope"),
        ("method.nosuch=1", "method.nosuch"),
        ("max_tokens=4", "reward.overlong_buffer"),
        ("checkpoint.best=nosuch", "checkpoint.best"),
        ("epochs=2", "(did you mean update.epochs?)"),
        ("method.scop=group", "no key 'method.scop' (did you mean method.scope?)"),
        ("entropy=nan", "entropy = nan: input should be a finite number"),
        ("kl=1e308", "kl = 1e+308: input should be between -1e+15 and 1e+15"),
        ("checkpoint=3", "checkpoint = 3: input should be a table"),
    ],
)
def test_a_fault_that_was_typed_is_not_the_file_s(recipe: Path, typed: str, path: str) -> None:
    with refused("command line: ", path):
        load_recipe(recipe, ["method=ict", typed])


@given(st.sampled_from(["nan", "inf", "1e5", "true", "-0", "1979-05-27", " 07:32:00", '"1e5"']))
def test_text_is_taken_as_typed_and_a_number_as_a_number(typed: str) -> None:
    """By the kind of a key, whatever TOML takes the value for."""
    keys = ("model", "task", "reward", "prompt.system", "columns.gold", "eval.bench", "plugins")
    data = dict[str, Any]()
    apply_overrides(data, [f"{key}={typed}" for key in keys], Recipe)
    table = data["columns"] | data["eval"] | data["prompt"]
    texts = [data["model"], data["task"], data["reward"], data["plugins"], *table.values()]
    assert texts == [typed.strip().strip('"')] * len(keys)
    apply_overrides(data, ["seed=12", "lr=1e5", "prompt.shots=2", "engine.micro_batch=4"], Recipe)
    assert (data["seed"], data["lr"], data["prompt"]["shots"]) == (12, 1e5, 2)
    assert data["engine"] == {"micro_batch": 4}
    assert HubSettings.model_validate({"split": "nan"}).split == "nan"
    assert AdapterSettings.model_validate({"targets": "q,1e5"}).targets == ("q", "1e5")


LEAST = {"model": "m", "task": "chain", "method": "ict", "steps": 40}
REFUSED = {
    "eval/pass@1": "during training",
    "eval/pass@9": "eval/pass@1, eval/pass@4",
    "rewrad": "did you mean reward",
    "-kl": "kl > 0",
    "sampler_gap": "update.minibatch",
    "": "checkpoint.best",
}


@pytest.mark.parametrize("best", REFUSED)
def test_a_metric_that_is_never_recorded_is_refused(best: str) -> None:
    with pytest.raises(UserError) as caught:
        check({**LEAST, "checkpoint": {"best": best}}, "r.toml")
    assert REFUSED[best] in f"{caught.value.message} {caught.value.hint}"
