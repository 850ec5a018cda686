"""The longest prompt of many problems, found without counting the tokens of each."""

from types import SimpleNamespace
from typing import Any

import pytest
from chain_texts import make_tokenizer
from hypothesis import given
from hypothesis import strategies as st

from ictcli.errors import UserError
from ictcli.recipe import load_recipe
from ictcli.tasks.prepare import task_of
from ictcli.train.launch import longest_prompt
from ictcli.types import Problem

RECIPE = load_recipe("chain", ["max_tokens=8", "prompt.template=none"])
TASK = task_of(RECIPE)
TOKENIZER = make_tokenizer()
"""One token a character."""


@given(st.lists(st.integers(0, 90), min_size=1, max_size=12), st.sampled_from([40, 90, 98, 300]))
def test_it_is_the_longest_of_all_and_one_too_long_is_found(sizes: list[int], context: int) -> None:
    lengths = SimpleNamespace(hint=lambda tokens: "")
    engine: Any = SimpleNamespace(tokenizer=TOKENIZER, context=context, lengths=lengths)
    problems = [Problem(str(i), "1" * size, "1") for i, size in enumerate(sizes)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ictcli.train.launch.BATCH", 2)
        if not min(sizes) or max(sizes) + RECIPE.max_tokens > context:
            with pytest.raises(UserError):
                longest_prompt(RECIPE, engine, TASK, problems, TASK.domain)
        else:
            found = longest_prompt(RECIPE, engine, TASK, problems, TASK.domain)
            assert found == max(sizes)
