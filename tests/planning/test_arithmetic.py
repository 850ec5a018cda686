"""The operations of a step: laws of their counts, and what was measured."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from workloads import QWEN, recipe_of, shapes

from ictcli.engine.shape import QWEN2, ModelShape, known_shape, read_shape
from ictcli.errors import UserError
from ictcli.planning.time_estimate import step_operations


def operations(
    shape: ModelShape, kept: float, signal: float = 1.0, **settings: object
) -> tuple[float, float]:
    """Sampling and update of 2 prompts of 16 tokens with 4 responses of 128."""
    recipe = recipe_of(**{"prompts": 2, "group": 4, **settings})
    each = (np.array([value]) for value in (128.0, signal, kept))
    sampled, updated = step_operations(recipe, shape, 16.0, *each)
    return float(sampled[0]), float(updated[0])


def test_it_is_what_was_measured_of_a_wide_vocabulary() -> None:
    """docs/speed.md: an update of a tenth took 0.31 of a dense one with 4 of Qwen2.5-0.5B's layers,
    and 0.69 with all 24."""
    four = replace(QWEN, layers=4)
    sizes = (four, *QWEN2.values())
    found = [operations(shape, 0.1)[1] / operations(shape, 1)[1] for shape in sizes]
    assert found[:2] == [pytest.approx(0.31, rel=0.1), pytest.approx(0.69, rel=0.1)]
    assert [round(each, 2) for each in found] == [0.34, 0.75, 0.86, 0.91]  # docs/compare.md


@given(shapes, st.floats(0, 1), st.floats(0, 1))
def test_less_that_is_trained_takes_less(shape: ModelShape, some: float, more: float) -> None:
    some, more = sorted((some, more))
    assert operations(shape, some)[1] <= operations(shape, more)[1]
    assert operations(shape, 1, some)[1] <= operations(shape, 1, more)[1]
    assert operations(shape, some)[0] == operations(shape, more)[0]
    assert operations(shape, 1, some, kl=0.1)[1] == operations(shape, 1, more, kl=0.1)[1]
    assert operations(shape, some, update={"epochs": 2})[1] == 2 * operations(shape, some)[1]


def test_a_dense_update_is_three_times_its_forward_pass() -> None:
    """As sampling is one, but for what is read of the prompts."""
    sampled, updated = operations(QWEN, 1)
    assert updated / sampled == pytest.approx(3, rel=0.2)
    assert operations(QWEN, 1, adapter={"kind": "lora"})[1] == pytest.approx(2 / 3 * updated)


def test_a_config_alone_or_a_recipes_model_is_enough(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(
        '{"model_type": "qwen2", "num_hidden_layers": 24, "hidden_size": 896, "vocab_size": 151936,'
        '"num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864,'
        '"max_position_embeddings": 32768, "tie_word_embeddings": true}'
    )
    assert known_shape(str(tmp_path)) == replace(QWEN, longest=known_shape(str(tmp_path)).longest)
    assert known_shape("Qwen/Qwen2.5-0.5B-Instruct") == QWEN


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("Qwen/Qwen2.5-0.5B", 494_032_768),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("Qwen/Qwen2.5-7B", 7_615_616_512),
        ("mlx-community/Qwen2.5-1.5B-Instruct-4bit", 1_543_714_304),
    ],
)
def test_the_models_of_the_recipes_need_no_network(model: str, parameters: int) -> None:
    """Parameters as their pages on the hub have them."""
    shape = read_shape(model)
    assert shape.parameters == parameters and bool(shape.bits) == model.endswith("-4bit")
    with pytest.raises(UserError):
        read_shape(model.replace("/", "/Other-"))
