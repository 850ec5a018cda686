"""Keys that recipes had before: refused where they are typed, harmless in a run's own recipe."""

from pathlib import Path

import pytest
from refusing import refused

from ictcli.recipe import RecipeFile, gone, load_recipe, read_recipe, to_toml

OLD = (
    ("eval.temperatures=[0, 0.3]", "ictcli eval --temperatures", False),
    ("engine.shard=blocks", "engine.shard = true", True),
    ("engine.sampler=int8", "own", True),
    ("engine.vllm_server=http://here:8000", "vllm", True),
    ("adapter.kind=dora", "lora", True),
    ("optimizer.kind=adamw8bit", "adamw", True),
    ("method=gmts", "examples/methods", True),
    ('log=["trackio", "wandb"]', "wandb", False),
)


@pytest.mark.parametrize(("override", "instead", "used"), OLD)
def test_what_is_gone_is_refused_with_what_to_write_instead(
    override: str, instead: str, used: bool, tmp_path: Path
) -> None:
    key = override.partition("=")[0]
    with refused(f"{key}", hint=instead):
        load_recipe("chain", [override])


@pytest.mark.parametrize(("override", "instead", "used"), OLD)
def test_a_run_of_before_is_read_and_says_what_it_used(
    override: str, instead: str, used: bool, tmp_path: Path
) -> None:
    import tomli_w

    from ictcli.recipe.keys import apply_overrides

    path = tmp_path / "recipe.toml"
    path.write_text(to_toml(load_recipe("chain")))
    data = dict(read_recipe(path).data)
    apply_overrides(data, [override], type(load_recipe("chain")))
    path.write_text(tomli_w.dumps(data))
    file = RecipeFile(str(path), path, data, own=False)
    assert load_recipe(file).steps == load_recipe("chain").steps
    assert bool(gone.dropped(data)) == used
