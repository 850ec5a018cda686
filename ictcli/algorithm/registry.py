"""Methods and their table. A method is a rule that chooses tokens of a batch and weights them.

A rule gets a batch of finished rollouts (`Scored`) and the method's options, and returns a
`Choice`. The code that turns a choice into a loss is the same for all: the method's normalisation
(`weights`) and Psi (`objective`). A recipe names a method and sets its options: `method = "ict"`,
or a table `[method]` with `name = "ict"` and e.g. `scope = "group"`.
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
    """Statistics by name, (B, T) each: entropy, purity, prob, and those in the method's `wants`."""
    logp: FloatArray
    """(B, T) log-probability of the tokens under the sampler, at the sampling temperature."""
    advantage: FloatArray
    """(B,) advantage of each response."""
    correct: BoolArray
    """(B,) whether each response is correct."""
    valid: BoolArray
    """(B, T) False after a row's end."""
    tokens: IntArray
    """(B, T) ids, 0 after a row's end."""
    texts: Sequence[str]
    """(B,) the responses as text."""
    group: int
    rng: np.random.Generator


@dataclass(frozen=True)
class Choice:
    """The tokens that a rule trains, their weights, and the terms that it adds to the loss."""

    kept: BoolArray
    """(B, T) the tokens that the rule keeps: the loss's normalisation counts them."""
    weight: FloatArray | None = None
    """(B, T) factors of the advantage of kept tokens, positive or negative; None: 1. A token with
    factor 0 is not trained, but the normalisation counts it (`ictcli.algorithm.weights`)."""
    terms: tuple[Term, ...] = ()
    """Terms that are added to the loss."""
    clip: Clip | None = None
    """How the ratio is clipped; None: by the recipe's `clip`."""


class Settings(BaseModel):
    """Settings that users write, checked strictly."""

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
        """Statistics that these options need besides those in `Method.wants`."""
        return ()


Rule = Callable[[Scored, Any], Choice]


@dataclass(frozen=True)
class Method:
    """A rule, its options, the statistics that it needs, and its source."""

    name: str
    rule: Rule
    source: str
    summary: str
    options: type[Options] = Options
    normalisation: Normalisation = "sequence"
    wants: tuple[str, ...] = ()
    """Statistics besides entropy, purity and prob that sampling must record."""
    dense_warmup: bool = False
    """Whether the recipe's first `warmup` steps train every token."""
    scaled_advantage: bool = True
    """Whether advantages are divided by the group's standard deviation."""
    clips: bool = False
    """Whether the method's rule sets the clip, so that the recipe's `clip` is ignored."""
    of_correct: bool = False
    """Whether the advantage is 1 for correct responses and 0 for others, whatever their group."""

    def advantage(self, rewards: FloatArray, correct: BoolArray, group: int) -> FloatArray:
        """Return the advantages (B,) of responses with these rewards (B,), group-major."""
        if self.of_correct:
            return correct.astype(np.float64)
        return group_advantage(rewards, group, scale=self.scaled_advantage)


METHODS: dict[str, Method] = {}


def register(source: str, **fields: Any) -> Callable[[Rule], Rule]:
    """Return a decorator that registers a rule as a method under the function's name. `fields` are
    the fields of `Method` that have a default."""

    def add(rule: Rule) -> Rule:
        name = rule.__name__
        if name in METHODS:
            raise UserError(f"There is a method {name!r} already.", "choose another name")
        summary = (rule.__doc__ or "").split("\n\n")[0].replace("\n    ", " ").strip()
        METHODS[name] = Method(name, rule, source, summary, **fields)
        return rule

    return add


def find_method(name: str) -> Method:
    """Return the method of that name. UserError, with the nearest name, if there is none."""
    if name not in METHODS:
        raise unknown("method", name, METHODS, "ictcli methods lists the methods")
    return METHODS[name]
