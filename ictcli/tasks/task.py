"""Tasks and benchmarks, and the order in which problems are trained on."""

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from random import Random
from typing import Any

from ictcli.recipe.data import Example, PromptSettings
from ictcli.rewards import LIMITS, Judge, Limits, Verdict, Verifier, grade
from ictcli.rewards.verifiers import as_verifier
from ictcli.seeds import generator, seed_of
from ictcli.types import Problem

GENERATED = 4096
"""Number of held-out problems of a task that generates its problems."""
BOXED = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass(frozen=True)
class Domain:
    """How problems of a kind are presented to a model, and how the model's answers are judged."""

    verify: Verifier | Judge
    suffix: str = ""
    """Added after the question, on a separate line."""
    words: bool = True
    """False: the prompt is raw text, without a chat template."""
    pattern: str | None = None
    """Regular expression of the answer: the first group of its last match. None: the last box."""
    limits: Limits = LIMITS
    """Time and memory limits for judging an answer."""
    private: bool = False
    """Whether questions and responses are shown and stored only on request, as the data's terms
    demand."""

    def judge(
        self, problems: Sequence[Problem], responses: Sequence[str], by: Verifier | None = None
    ) -> list[Verdict]:
        """Return a verdict per response. `responses` holds the same number of responses for each
        problem, in the order of the problems. `by` replaces the verifier and judges whole
        responses."""
        n = len(responses) // max(len(problems), 1)
        verifier = as_verifier(by or self.verify)
        counts = [1 if verifier.in_groups else len(problem.golds) for problem in problems]
        pairs = [
            (problem, gold, responses[place * n + i])
            for place, (problem, count) in enumerate(zip(problems, counts, strict=True))
            for i in range(n)
            for gold in problem.golds[:count]
        ]
        repeated = [problem for problem, _, _ in pairs]
        verdicts = grade(
            [response for _, _, response in pairs],
            [gold for _, gold, _ in pairs],
            verifier,
            pattern=None if by else self.pattern,
            choices=[problem.choices for problem in repeated],
            questions=[problem.prompt for problem in repeated],
            columns=[problem.columns for problem in repeated],
            limits=self.limits,
        )
        by_gold = iter(verdicts)
        return [
            max(islice(by_gold, count), key=lambda verdict: verdict.reward)
            for count in counts
            for _ in range(n)
        ]


@dataclass(frozen=True)
class Task:
    """Problems to train on, and problems held out."""

    name: str
    domain: Domain
    train: tuple[Problem, ...] = ()
    """Problems to train on, each once per epoch; empty: `draw` makes them."""
    held: tuple[Problem, ...] = ()
    """All held-out problems; empty: `draw_heldout` makes them."""
    draw: Callable[[Random, int], list[Problem]] | None = None
    """Draws n problems to train on, for a task that generates them."""
    draw_heldout: Callable[[int], list[Problem]] | None = None
    """Returns the first n held-out problems, which `draw` never returns."""
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    """Source of the data: path, config, split and revision, or file and sha256."""
    notes: tuple[str, ...] = ()
    """Messages to the user, for example on problems left out."""
    examined: tuple[str, Domain] | None = None
    """Name and domain of the held-out problems, if they come from other data than the task's."""
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of problems left out, by reason."""
    sft: tuple[Problem, ...] = ()
    """Examples to train on first: prompts with a `solution`, which is the response."""
    prompt: PromptSettings = field(default_factory=PromptSettings)
    """The prompt settings, with the examples that each prompt contains."""

    @property
    def exam(self) -> tuple[str, Domain]:
        """Name and domain of the held-out problems."""
        return self.examined or (self.name, self.domain)

    def batch(self, seed: int, step: int, n: int) -> list[Problem]:
        """Return the n problems of a training step; steps count from 1."""
        if self.draw:
            return self.draw(Random(seed_of(seed, "problems", step)), n)
        return shuffled_batch(self.train, seed, step, n)

    def heldout(self, n: int) -> list[Problem]:
        """Return the first n held-out problems; fewer if there are no more."""
        if self.draw_heldout and not self.held:
            return self.draw_heldout(min(n, GENERATED))
        return list(self.held[:n])


@dataclass(frozen=True)
class Shots:
    """The few-shot prompt and the answer pattern behind a benchmark's published scores."""

    source: str
    """Name of the data set of the examples."""
    examples: Callable[[str | None], list[Example]]
    """Returns all examples of a file; for None, those of the data set on the hub."""
    template: str
    pattern: str


@dataclass(frozen=True)
class Benchmark:
    """Problems to evaluate on."""

    name: str
    domain: Domain
    problems: Callable[[int | None], list[Problem]]
    """Returns the first n problems; all for None."""
    max_tokens: int = 2048
    shots: Shots | None = None
    source: dict[str, Any] = field(default_factory=dict[str, Any])
    """As in `Task`."""
    notes: tuple[str, ...] = ()
    """As in `Task`."""


def is_set_aside(text: str) -> bool:
    """Return whether a built-in task holds out the problem with this text. The text's checksum
    selects one problem in sixteen."""
    return zlib.crc32(text.encode()) % 16 == 0


def shuffled_batch(problems: Sequence[Problem], seed: int, step: int, n: int) -> list[Problem]:
    """Return the n problems of step 1, 2, ..., from a list that is shuffled anew in each epoch."""
    N, first = len(problems), (step - 1) * n
    orders: dict[int, list[int]] = {}
    chosen: list[Problem] = []
    for place in range(first, first + n):
        epoch = place // N
        if epoch not in orders:
            orders[epoch] = generator(seed, "order", epoch).permutation(N).tolist()
        chosen.append(problems[orders[epoch][place % N]])
    return chosen
