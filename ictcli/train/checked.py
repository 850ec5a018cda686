"""What `ictcli check` found out."""

from dataclasses import dataclass

from ictcli.planning.advice import MemoryCheck
from ictcli.planning.time_estimate import TimeEstimate


@dataclass(frozen=True)
class ShownPrompt:
    """A prompt as the model reads it."""

    problem: str
    text: str
    tokens: int
    gold: str
    answer: str
    """The greedy one."""
    verdict: str


@dataclass(frozen=True)
class Groups:
    """The groups of the sampled answers, by their rewards."""

    total: int
    with_signal: int
    all_right: int
    """Of those without a signal, as `all_wrong` is."""
    all_wrong: int


@dataclass(frozen=True)
class Tried:
    """What the model did."""

    shown: tuple[ShownPrompt, ...]
    greedy: dict[str, int]
    """Answers by verdict: correct, wrong, unparsed, timeout; and those cut at max_tokens."""
    sampled: dict[str, int]
    """With `sampling.redraw` those to the step's own prompts, and so the groups."""
    groups: Groups
    rewards: dict[str, float | None]
    """The mean reward of each function, where there are several; None where it gave none."""
    reasons: dict[str, int]
    """Why answers are unparsed or timed out, the most frequent reason first."""
    room: int
    """Tokens that the model's context leaves to a response after the longest prompt."""
    finite: bool
    """Whether log-probabilities, loss and gradient are numbers."""
    load_s: float
    time: TimeEstimate


@dataclass(frozen=True)
class Checked:
    """What is known of a training before it begins."""

    name: str
    method: str
    lr: float
    train: int
    """Problems to train on; 0 where the task makes them."""
    heldout: int
    """Problems to evaluate on."""
    notes: tuple[str, ...]
    memory: MemoryCheck
    tried: Tried | None
    """None where the model does not fit into memory."""
    ready: bool
    verdict: str
    changes: tuple[str, ...]
    """Settings, KEY=VALUE, that are advised."""
