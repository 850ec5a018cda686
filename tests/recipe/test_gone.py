"""Keys that recipes had before: refused where they are typed, harmless in a run's own recipe."""

import contextlib
import tomllib
from pathlib import Path

import pytest
import tomli_w
from refusing import refused

from ictcli.algorithm.methods import METHODS
from ictcli.recipe import Recipe, RecipeFile, apply_overrides, gone, load_recipe, to_toml
from ictcli.recipe.keys import all_keys
from ictcli.runs import Run
from ictcli.runs.model import settings_of

OLD = (
    ("curriculum=length", "random order", True),
    ("curriculum=none", "random order", False),
    ("sft.columns.difficulty=level", "no order", False),
    ("eval.temperatures=[0, 0.3]", "ictcli eval --temperatures", False),
    ("engine.shard=blocks", "engine.shard = true", True),
    ("engine.sampler=int8", "own", True),
    ("engine.vllm_server=http://here:8000", "vllm", True),
    ("engine.micro_batch=4", "engine.micro_tokens", True),
    ("adapter.kind=dora", "lora", True),
    ("optimizer.kind=adamw8bit", "AdamW", True),
    ("optimizer.kind=adamw", "AdamW", False),
    ("method=gmts", "examples/methods", True),
    ("method.reference=context:4", "position, response or group", True),
    ("record.probe_every=10", "leave it out", False),
    ('log=["trackio", "wandb"]', "wandb", False),
)


@pytest.fixture(autouse=True)
def _no_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests of this process may have loaded one."""
    for name in gone.MOVED:
        monkeypatch.delitem(METHODS, name, raising=False)


def test_no_key_of_today_is_gone() -> None:
    keys = {each.key for each in all_keys(Recipe)}
    keys |= {f"method.{key}" for method in METHODS.values() for key in method.options.model_fields}
    assert "method.reference" in keys and "optimizer.eps" in keys
    assert not keys & {each.key for each in gone.GONE if gone.ANY in each.values}


@pytest.mark.parametrize(("override", "instead", "used"), OLD)
def test_what_is_gone_is_refused_with_what_to_write_instead(
    override: str, instead: str, used: bool
) -> None:
    with refused("gone", hint=instead):
        load_recipe("chain", [override])


@pytest.mark.parametrize(("override", "instead", "used"), OLD)
def test_a_run_of_before_is_read_and_says_what_it_used(
    override: str, instead: str, used: bool, tmp_path: Path
) -> None:
    data = tomllib.loads(to_toml(load_recipe("chain")))
    apply_overrides(data, [override], Recipe)
    path = tmp_path / "recipe.toml"
    path.write_text(tomli_w.dumps(data))
    file = RecipeFile(str(path), path, data, own=False)
    assert load_recipe(file).steps == load_recipe("chain").steps
    assert settings_of(tmp_path)[1].max_tokens == load_recipe("chain").max_tokens
    refusal = refused("cannot be resumed") if used else contextlib.nullcontext()
    with refusal, Run.open(tmp_path)[0]:
        pass
