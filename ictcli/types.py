"""The data types of the training loop. Engines take and return NumPy arrays, never tensors.

Letters in shapes: P prompts, G rollouts a prompt, B = P * G rows in group-major order (the G rows
of a prompt are neighbours), T the longest response, V the vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.integer]
BoolArray = npt.NDArray[np.bool_]

TokenStats = Mapping[str, FloatArray]
"""Statistics of softmax(logits) at temperature 1, named as in
`ictcli.algorithm.quantities.STATISTICS`: each (B, T) float32, 0 after a row's end."""

Turn = tuple[str, str]
"""A message of a conversation: its role (system, user, assistant, ...) and its text."""

OnTokens = Callable[[int, IntArray, IntArray], None]
"""Function (t, rows (R,), tokens (R,)) that is called after token t of these rows was drawn."""

ROW_STATS = ("entropy", "purity", "prob")
"""Statistics that every step records."""
LOGP = "logp"
"""Name of the tokens' log-probabilities in the arguments and result of `Engine.score`."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A prompt with its checkable answer. `prompt` is the question alone, before any template.
    In multiple choice, `choices` are the texts of (A), (B), ..., and `gold` is a letter.
    For a conversation, `prompt` is its whole text, and `turns` are its messages."""

    id: str
    prompt: str
    gold: str
    choices: tuple[str, ...] = ()
    solution: str = field(default="", compare=False, repr=False)
    """A worked response, if the data has one."""
    turns: tuple[Turn, ...] = ()
    """The messages of a conversation, the last one the user's; empty for a question alone."""
    columns: Mapping[str, Any] = field(default_factory=dict[str, Any], compare=False, repr=False)
    """The problem's row of the data set, for reward functions that use columns. For a conversation,
    the entry `prompt` is the list of its messages."""
    more_golds: tuple[str, ...] = ()
    """Further gold answers; each of them is correct too."""

    @property
    def golds(self) -> tuple[str, ...]:
        """All gold answers."""
        return (self.gold, *self.more_golds)

    def to_json(self) -> dict[str, Any]:
        """Return the fields that runs and evaluations record."""
        record = {"id": self.id, "prompt": self.prompt, "gold": self.gold, "choices": self.choices}
        extra = {"turns": self.turns, "more_golds": self.more_golds}
        return record | {name: value for name, value in extra.items() if value}


@dataclass(frozen=True)
class Sampling:
    """The sampling settings. `temperature` 0 is greedy; `top_p` 1 and `top_k` 0 are off. Top-p
    applies to the whole distribution, not to what top-k leaves of it."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_ids: tuple[int, ...] = ()
    sampler: str = "own"
    """The program that samples: a value of `engine.sampler`."""


@dataclass(frozen=True)
class Rollouts:
    """The result of one call of `generate`: B = len(prompts) * group rows, group-major."""

    prompts: tuple[tuple[int, ...], ...]
    group: int
    tokens: IntArray
    """(B, T) int32; a row includes its end token; 0 after a row's end."""
    lengths: IntArray
    """(B,) int32, tokens per row, the end token included."""
    finished: BoolArray
    """(B,) whether the row ended with a stop token; False: cut at max_tokens."""
    logp: FloatArray
    """(B, T) float32, log-probability of each token under softmax(logits / temperature), before any
    top-p or top-k cut; 0 after a row's end. For greedy rows the temperature is 1."""
    stats: TokenStats = field(default_factory=dict[str, FloatArray])

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def valid(self) -> BoolArray:
        """(B, T): True on the tokens of each row."""
        places = np.arange(self.tokens.shape[1], dtype=np.int32)
        return np.asarray(places[None, :] < self.lengths[:, None], dtype=np.bool_)

    def prompt_of(self, row: int) -> tuple[int, ...]:
        return self.prompts[row // self.group]

    def groups(self, first: int, last: int) -> "Rollouts":
        """Return the rows of prompts first..last-1, cut to their longest response."""
        rows = slice(first * self.group, last * self.group)
        return self.take(rows, self.prompts[first:last], self.group)

    def take(
        self, rows: IntArray | slice, prompts: Sequence[tuple[int, ...]], group: int
    ) -> "Rollouts":
        """Return the rollouts in `rows`, `group` per prompt, cut to their longest response."""
        T = int(self.lengths[rows].max(initial=1))
        return replace(
            self,
            prompts=tuple(prompts),
            group=group,
            tokens=self.tokens[rows, :T],
            lengths=self.lengths[rows],
            finished=self.finished[rows],
            logp=self.logp[rows, :T],
            stats={name: values[rows, :T] for name, values in self.stats.items()},
        )


@dataclass
class UpdateReport:
    """The figures of one optimiser update, summed over its passes. Means are over the evaluated
    tokens: those with a weight, except in rows that cannot have a gradient."""

    logp: FloatArray
    """(B, T) float32 log pi at the sampling temperature for evaluated tokens, else 0."""
    loss: float = 0.0
    clipped: float = 0.0
    """Number of tokens whose ratio was clipped."""
    summed_kl: float = 0.0
    evaluated: int = 0
    ratio_gap: float = 0.0
    """Largest |log pi - log pi_old|, or |log pi - log pi_sampler| with another sampler."""
    tokens: int = 0
    """Number of prompt and response tokens that went through the model."""
    grad_norm: float = 0.0
    """Global L2 norm of the gradient before clipping."""

    @property
    def finite(self) -> bool:
        return bool(np.isfinite([self.grad_norm, self.loss]).all())

    @property
    def stepped(self) -> bool:
        """Whether the optimiser took a step: tokens were evaluated, loss and norm are finite."""
        return self.finite and self.evaluated > 0

    @property
    def clip_fraction(self) -> float:
        """Share of the evaluated tokens whose ratio was clipped."""
        return self.clipped / max(self.evaluated, 1)

    @property
    def kl(self) -> float:
        """Mean k3 estimate of KL(pi || reference); 0 without a reference."""
        return self.summed_kl / max(self.evaluated, 1)
