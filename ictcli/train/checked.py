"""What `ictcli check` found out."""

from dataclasses import dataclass

from ictcli.planning.advice import MemoryCheck
from ictcli.planning.time_estimate import TimeEstimate


@dataclass(frozen=True)
class Training:
    """The data and method of a training, known before its model is loaded."""

    name: str
    method: str
    lr: float
    train: int
    """Problems to train on; 0 where the task makes them."""
    heldout: int
    """Problems to evaluate on."""
    notes: tuple[str, ...]
    memory: MemoryCheck


@dataclass(frozen=True)
class ShownPrompt:
    """A prompt as the model reads it."""

    problem: str
    text: str
    tokens: int
    gold: str


@dataclass(frozen=True)
class Answer:
    """A sampled response, judged."""

    text: str
    tokens: int
    cut: bool
    """Whether it was cut at max_tokens."""
    status: str
    read: str
    """The answer that was read."""
    gold: str
    reason: str


@dataclass(frozen=True)
class Groups:
    """The groups of the sampled answers, by their rewards."""

    total: int = 0
    with_signal: int = 0
    all_right: int = 0
    """Groups of those without a signal, as `all_wrong`."""
    all_wrong: int = 0


@dataclass(frozen=True)
class Tried:
    """The results of the model's answers."""

    shown: tuple[ShownPrompt, ...]
    sampled: dict[str, int]
    """Answers by verdict: correct, wrong, unparsed, timeout. Of them `truncated` were cut at
    max_tokens, `cut_unread` without an answer that is read and `cut_wrong` with a wrong one.
    Those that the time limit cut are none of them, but `unended`."""
    groups: Groups
    """Those whose answers all ended."""
    rewards: dict[str, float | None]
    """The mean reward of each function, where there are several; None where it gave none."""
    reasons: dict[str, int]
    """Why answers are unparsed or timed out, the most frequent reason first."""
    room: int
    """Tokens that the model's context leaves to a response after the longest prompt."""
    finite: bool | None
    """Whether log-probabilities, loss and gradient are numbers; None: no update was tried."""
    load_s: float
    limit: float
    """Seconds that the check was to take at most."""
    time: TimeEstimate | None
    """None where no group of answers ended in time."""
    interrupted: bool = False
    """By Ctrl-C."""

    @property
    def answers(self) -> int:
        """Return how many answers were judged."""
        return sum(self.sampled[name] for name in ("correct", "wrong", "unparsed", "timeout"))


@dataclass(frozen=True)
class Checked(Training):
    """The result of a check."""

    tried: Tried | None
    """None where the model does not fit into memory."""
    ready: bool
    verdict: str
    changes: tuple[str, ...]
    """Words of the command, KEY=VALUE, that are advised."""
