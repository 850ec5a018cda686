"""A method that compares like contexts: its statistic is sampled, recorded and chosen by."""

from pathlib import Path

import numpy as np
import pytest

from ictcli.algorithm.selection import top_share
from ictcli.engine import build_engine
from ictcli.errors import UserError
from ictcli.recipe import load_recipe
from ictcli.tasks.prepare import task_of
from ictcli.train.step import sample_batch, select


def test_the_tokens_kept_are_the_most_unique_in_like_contexts(tiny_model: Path) -> None:
    sizes = (f"model={tiny_model}", "prompts=4", "group=4", "max_tokens=24", "warmup=0")
    recipe = load_recipe("chain", [*sizes, "method.reference=context:1"])
    engine = build_engine(recipe.model, recipe.engine)
    batch = sample_batch(recipe, engine, task_of(recipe), 1)
    stats, valid = batch.rollouts.stats, batch.rollouts.valid
    kept = select(recipe, batch, 1).kept
    np.testing.assert_array_equal(kept, top_share(stats["context:1"], valid, recipe.keep))
    assert (kept != top_share(stats["uniqueness"], valid, recipe.keep)).any()


@pytest.mark.parametrize("reference", ["context:0", "context:", "prefix", "position:2"])
def test_a_reference_that_is_none_is_refused(reference: str) -> None:
    with pytest.raises(UserError, match=r"method.*reference"):
        load_recipe("chain", [f"method.reference={reference}"])
