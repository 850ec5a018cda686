"""What a method is, and the table of all: each is a rule that chooses and weighs tokens of a batch.

A rule sees a batch of finished rollouts (`Scored`) and its own options, and returns a `Choice`.
What turns the choice into a loss is shared: the normalisation it names (`weights`) and Psi
(`objective`). A recipe names a method and sets its options: `method = "ict"`, or a table `[method]`
with `name = "ict"` and e.g. `scope = "group"`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, field_validator

from ictcli.algorithm.objective import Clip, Term
from ictcli.algorithm.weights import Normalisation, group_advantage
from ictcli.errors import UserError, unknown
from ictcli.files import LARGEST
from ictcli.types import BoolArray, FloatArray, IntArray, TokenStats


@dataclass(frozen=True)
class Scored:
    """The input of a rule: one batch of an optimiser update, B rows, group-major."""

    stats: TokenStats
    """(B, T) each; the method's `wants`, and entropy, purity, prob."""
    logp: FloatArray
    """(B, T) log-probability of the tokens at the sampling temperature, by the sampler."""
    advantage: FloatArray
    """(B,)"""
    correct: BoolArray
    """(B,)"""
    valid: BoolArray
    """(B, T)"""
    tokens: IntArray
    """(B, T) ids, 0 after a row's end."""
    texts: Sequence[str]
    """(B,) the responses as text."""
    group: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Choice:
    """The tokens that a rule trains, their weights, and terms of the loss at some of them."""

    kept: BoolArray
    """(B, T) the tokens that the normalisation counts."""
    weight: FloatArray | None = None
    """(B, T) factors of the advantage of kept tokens, of either sign; without, 1. A token of factor
    0 is not trained and still counts in the mean. `ictcli.algorithm.weights` has the rest."""
    terms: tuple[Term, ...] = ()
    """Terms of the loss."""
    clip: Clip | None = None
    """How the ratio is clipped; without, as the recipe's `clip` says."""


class Settings(BaseModel):
    """What users write."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        allow_inf_nan=False,
        strict=True,
        use_attribute_docstrings=True,  # `ictcli.recipe.keys` shows them
    )

    @field_validator("*")
    @classmethod
    def _bounded(cls, value: Any) -> Any:
        numbers = cast(tuple[Any, ...], value) if isinstance(value, tuple) else (value,)
        if any(isinstance(number, float) and abs(number) > LARGEST for number in numbers):
            raise ValueError(f"input should be between -{LARGEST:g} and {LARGEST:g}")
        return cast(Any, value)


class Options(Settings):
    """The options of a method; this base class has none."""

    @property
    def wants(self) -> tuple[str, ...]:
        """More statistics that these options need."""
        return ()


Rule = Callable[[Scored, Any], Choice]


@dataclass(frozen=True)
class Method:
    """A rule with what it needs and where it comes from."""

    name: str
    rule: Rule
    source: str
    summary: str
    options: type[Options] = Options
    normalisation: Normalisation = "sequence"
    wants: tuple[str, ...] = ()
    """Statistics besides entropy, purity and prob that sampling must record."""
    dense_warmup: bool = False
    """Whether the recipe's first `warmup` steps train every token (M = 1)."""
    scaled_advantage: bool = True
    """Whether advantages are divided by the group's standard deviation."""
    clips: bool = False
    """Whether it has its own clip, and the recipe's `clip` is not read."""
    of_correct: bool = False
    """Whether the advantage is 1 for correct responses and 0 for others, in any group."""

    def advantage(self, rewards: FloatArray, correct: BoolArray, group: int) -> FloatArray:
        """Return (B,) from the rewards (B,), group-major, and which responses are correct (B,)."""
        if self.of_correct:
            return correct.astype(np.float64)
        return group_advantage(rewards, group, scale=self.scaled_advantage)


METHODS: dict[str, Method] = {}


def register(source: str, **fields: Any) -> Callable[[Rule], Rule]:
    """Return a decorator that makes a rule a method under the function's name. `fields` are those
    of `Method` that have a default."""

    def add(rule: Rule) -> Rule:
        name = rule.__name__
        if name in METHODS:
            raise UserError(f"There is a method {name!r} already.", "choose another name")
        summary = (rule.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()
        METHODS[name] = Method(name, rule, source, summary, **fields)
        return rule

    return add


def find_method(name: str) -> Method:
    """Return the method of that name; UserError with the nearest name where there is none."""
    if name not in METHODS:
        raise unknown("method", name, METHODS, "ictcli methods lists them")
    return METHODS[name]
