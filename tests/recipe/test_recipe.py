"""Recipes: what is read, what is written, and what an override means."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused

from ictcli.algorithm.methods import METHODS
from ictcli.errors import UserError
from ictcli.recipe import (
    Recipe,
    check,
    load_recipe,
    recipe_keys,
    shipped_recipes,
    to_toml,
    unused_keys,
)

SHIPPED = shipped_recipes()
LEAST: dict[str, Any] = {"model": "m", "task": "chain", "method": "ict", "steps": 4}


def read_back(recipe: Recipe, folder: Path) -> Recipe:
    path = folder / "recipe.toml"
    path.write_text(to_toml(recipe), encoding="utf-8")
    return load_recipe(path)


EXAMPLES = sorted((Path(__file__).parents[2] / "examples" / "methods").glob("*.toml"))


def test_every_shipped_recipe_says_what_it_is_and_reads_back_equal(tmp_path: Path) -> None:
    for name, path in [*SHIPPED.items(), *((str(path), path) for path in EXAMPLES)]:
        recipe = load_recipe(name)
        assert read_back(recipe, tmp_path) == recipe
        first = path.read_text(encoding="utf-8").splitlines()[0]
        assert first.startswith("# ") and first.endswith("."), name


@pytest.mark.parametrize("name", ["chain", "chain-compare"])
def test_every_method_fits_every_recipe(name: str, tmp_path: Path) -> None:
    for method in METHODS:
        recipe = load_recipe(name, [f"method={method}"])
        assert recipe.rule.name == method
        assert read_back(recipe, tmp_path) == recipe


TABLES = {
    "lr": st.floats(1e-30, 1e15),
    "seed": st.integers(0, 2**80),
    "method": st.floats(0, 1, exclude_min=True).map(lambda keep: {"name": "ict", "keep": keep}),
    "prompt": st.fixed_dictionaries({"system": st.text()}),
    "eval": st.fixed_dictionaries(
        {
            "k": st.lists(st.integers(1, 9), min_size=1, unique=True),
            "n": st.just(9),
            "temperature": st.none() | st.floats(0, 5),
        }
    ),
}


@given(st.fixed_dictionaries(TABLES))
def test_any_recipe_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, tables: dict[str, Any]
) -> None:
    recipe = check({**LEAST, **tables}, "test")
    assert read_back(recipe, tmp_path_factory.mktemp("recipe")) == recipe


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("lr=1", "lr", 1.0),
        ('model="a b"', "model", "a b"),
        ("model=a=b", "model", "a=b"),
        ("checkpoint.every=3", "checkpoint.every", 3),
        ("eval.k=[1,2]", "eval.k", (1, 2)),
        ("engine.trust_remote_code=true", "engine.trust_remote_code", True),
        ("method.scope=batch", "method", {"name": "ict", "scope": "batch"}),
    ],
)
def test_an_override_is_read_as_toml_or_as_a_plain_string_and_the_last_counts(
    override: str, path: str, value: Any
) -> None:
    found: Any = load_recipe("chain", ["seed=1", "method=ict", override])
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value and type(found) is type(value)


def test_a_key_with_a_slip_is_refused_with_a_key_that_exists() -> None:
    for key in recipe_keys():
        if not key.startswith("method."):
            slip = f"{key}x"
            with refused(f"there is no key {slip!r} (did you mean {key}?)"):
                load_recipe("chain", [f"{slip}=1"])


@pytest.mark.parametrize(
    ("method", "typed", "expected"),
    [
        ("grpo", ["keep=0.2", "warmup=3"], ["keep", "warmup"]),
        ("entropy20", ["keep=0.2", "method.keep=0.3"], ["keep"]),
        ("ict", ["adapter.rank=4", "adapter.alpha=2"], ["adapter.rank", "adapter.alpha"]),
        ("ict", ["adapter.kind=none", "adapter.rank=4"], ["adapter.rank"]),
        ("ict", ["adapter.kind=lora", "adapter.rank=4"], []),
        ("ict", ["sft.data=rows.jsonl", "sft.steps=3"], []),
        ("ict", ["sft.steps=3"], ["sft.steps"]),
        ("gspo", ["clip.high=0.3", "method.high=0.1"], ["clip.high"]),
    ],
)
def test_typed_keys_without_effect_are_found(
    method: str, typed: list[str], expected: list[str]
) -> None:
    overrides = [f"method={method}", *typed]
    assert list(unused_keys(load_recipe("chain", overrides), overrides)) == expected


@given(st.integers(1, 50), st.integers(0, 60), st.sampled_from(["none", "linear", "cosine"]))
def test_the_learning_rate_rises_then_falls_and_is_never_0(
    steps: int, rise: int, decay: str
) -> None:
    data = {**LEAST, "steps": steps, "lr": 0.5, "optimizer": {"lr_warmup": rise, "decay": decay}}
    recipe = check(data, "test")
    rates = [recipe.lr_at(step) for step in range(1, steps + 1)]
    top = min(max(rise, 1), steps)
    assert all(0 < rate <= 0.5 for rate in rates)
    assert rates[:top] == sorted(rates[:top])
    assert rates[top - 1 :] == sorted(rates[top - 1 :], reverse=True)
    if rise <= steps:
        assert max(rates) == 0.5
    if decay == "none":
        assert set(rates[top - 1 :]) == {rates[top - 1]}


def test_the_hint_for_what_is_no_recipe_is_a_command_that_reads_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for path, text in (
        ("my data.csv", "question,answer\n1+1?,2\n"),
        ("a model/config.json", "{}"),
        ("a run/recipe.toml", to_toml(load_recipe("chain"))),
        ("no task.toml", 'data = "my data.csv"\nmodel = "m"\nmethod = "grpo"\nsteps = 1\n'),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    recipe = load_recipe("no task.toml")
    assert Path(recipe.task).name == "my data.csv" and recipe.data is None
    for source in ("my data.csv", "a model", "a run"):
        with pytest.raises(UserError) as refusal:
            load_recipe(source)
        command = shlex.split(refusal.value.hint)
        assert command[:2] in (["ictcli", "check"], ["ictcli", "train"])
        load_recipe(command[2], command[3:])
        assert source in " ".join(command)


def test_a_typed_n_lowers_k() -> None:
    assert load_recipe("chain", ["eval.n=2"]).eval.k == (1,)
    with refused("every k must be in 1..n = 2"):
        load_recipe("chain", ["eval.n=2", "eval.k=[1,4]"])
