"""Keys that recipes had before: refused where they are typed, harmless in a run's own recipe."""

import contextlib
import tomllib
from pathlib import Path

import pytest
import tomli_w
from refusing import refused

from ictcli.recipe import Recipe, RecipeFile, apply_overrides, load_recipe, to_toml
from ictcli.runs import Run

OLD = (
    ("curriculum=length", "random order", True),
    ("curriculum=none", "random order", False),
    ("sft.columns.difficulty=level", "no order", False),
    ("eval.temperatures=[0, 0.3]", "ictcli eval --temperatures", False),
    ("engine.vllm_server=http://here:8000", "vllm", True),
    ("engine.micro_batch=4", "engine.micro_tokens", True),
    ("optimizer.kind=adamw8bit", "AdamW", True),
    ("optimizer.kind=adamw", "AdamW", False),
    ("record.probe_every=10", "leave it out", False),
)


@pytest.mark.parametrize(("override", "instead", "used"), OLD)
def test_a_run_of_before_is_read_and_says_what_it_used(
    override: str, instead: str, used: bool, tmp_path: Path
) -> None:
    """Where it is typed it is refused with what to write instead."""
    with refused("gone", hint=instead):
        load_recipe("chain", [override])
    data = tomllib.loads(to_toml(load_recipe("chain")))
    apply_overrides(data, [override], Recipe)
    path = tmp_path / "recipe.toml"
    path.write_text(tomli_w.dumps(data))
    file = RecipeFile(str(path), path, data, own=False)
    assert load_recipe(file).steps == load_recipe("chain").steps
    refusal = refused("cannot be resumed") if used else contextlib.nullcontext()
    with refusal, Run.open(tmp_path)[0]:
        pass
