"""What a correct response before the prompt changes, by definition: two forward passes a row."""

from dataclasses import replace

import numpy as np
import pytest

from ictcli.engine import Engine, score
from ictcli.errors import UserError
from ictcli.train import step as solutions
from ictcli.types import Sampling

from .conftest import PROMPTS
from .oracle import Oracle, kl, log_softmax

GROUP = 4
CORRECT = np.array([True, False, True, True, False, True, False, False])
SOLUTION = np.array([2, 0, 3, 0, -1, -1, -1, -1])


@pytest.mark.parametrize("room", [5, 10**6], ids=["piece by piece", "together"])
def test_it_is_its_definition(
    tiny_engine: Engine, tiny_oracle: Oracle, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HELD", "COMPARED"):
        monkeypatch.setattr(score, name, room * len(tiny_engine.tokenizer))
    rollouts = tiny_engine.generate(PROMPTS[:2], GROUP, Sampling(9, 0.7, stop_ids=(17, 4)), 3)
    found = tiny_engine.score(rollouts, ("solution_kl",), solution=SOLUTION)["solution_kl"]
    wanted = np.zeros(rollouts.tokens.shape)
    for row in np.flatnonzero(SOLUTION >= 0).tolist():
        prompt, solution = rollouts.prompt_of(row), SOLUTION[row]
        read = (*prompt, *rollouts.tokens[solution, : rollouts.lengths[solution]].tolist())
        told = replace(rollouts, prompts=((*read, *prompt),), group=len(rollouts))
        for t in range(rollouts.lengths[row]):
            student, teacher = (
                np.exp(log_softmax(tiny_oracle.row_logits(each, row)[t]))
                for each in (rollouts, told)
            )
            wanted[row, t] = kl(teacher, student)
    assert (wanted > 1e-3).any()
    np.testing.assert_allclose(found, wanted, atol=3e-5, rtol=1e-3)


def test_solutions_are_drawn_from_the_other_correct_ones_of_groups_in_part_correct() -> None:
    drawn = np.array(
        [solutions.other_correct(CORRECT, GROUP, np.random.default_rng(n)) for n in range(60)]
    )
    assert [set(column) for column in drawn.T] == [
        *({2, 3}, {0, 2, 3}, {0, 3}, {0, 2}),
        *([{-1}] * 4),
    ]
    everyone = np.ones(GROUP, dtype=bool)
    assert (solutions.other_correct(everyone, GROUP, np.random.default_rng(0)) == -1).all()


def test_a_context_without_room_for_both_is_refused(tiny_engine: Engine) -> None:
    prompt = [[5] * 4]
    room = tiny_engine.context // 2 - 4
    solutions.require_room(tiny_engine, prompt, room)
    with pytest.raises(UserError, match=f"context is {tiny_engine.context}") as caught:
        solutions.require_room(tiny_engine, prompt, room + 1)
    assert caught.value.hint == f"max_tokens={room}"
