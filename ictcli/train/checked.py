"""The results of `ictcli check`."""

from dataclasses import dataclass

from ictcli.planning.advice import MemoryCheck
from ictcli.planning.time_estimate import TimeEstimate


@dataclass(frozen=True)
class Training:
    """Data, method and memory estimate of a recipe, known before its model is loaded."""

    name: str
    method: str
    lr: float
    train: int
    """Number of training problems; 0 if the task generates them."""
    heldout: int
    """Number of held-out problems."""
    notes: tuple[str, ...]
    memory: MemoryCheck


@dataclass(frozen=True)
class ShownPrompt:
    """A problem's prompt as the model gets it, and the correct answer."""

    problem: str
    text: str
    tokens: int
    gold: str


@dataclass(frozen=True)
class Answer:
    """A sampled response and its verdict."""

    text: str
    tokens: int
    cut: bool
    """Whether the response was cut at max_tokens."""
    status: str
    read: str
    """The answer that was extracted from the text."""
    gold: str
    reason: str


@dataclass(frozen=True)
class Groups:
    """Numbers of groups of answers to the same problem, by the answers' rewards."""

    total: int = 0
    with_signal: int = 0
    all_right: int = 0
    """Groups with equal rewards whose answers are all right; in `all_wrong` no answer is right."""
    all_wrong: int = 0


@dataclass(frozen=True)
class Tried:
    """Results of sampling answers and of a trial update."""

    shown: tuple[ShownPrompt, ...]
    sampled: dict[str, int]
    """Number of answers by verdict: correct, wrong, unparsed, timeout. `truncated` of them
    were cut at max_tokens: `cut_unread` unparsed and `cut_wrong` wrong ones. Answers that the
    time limit or Ctrl-C cut are counted in `unended` only."""
    groups: Groups
    """Groups whose answers all ended in time."""
    rewards: dict[str, float | None]
    """Mean reward of each reward function, if there are several; None if it gave no reward."""
    reasons: dict[str, int]
    """Number of unparsed or timed out answers by reason, the most frequent reason first."""
    room: int
    """Tokens that the model's context leaves for a response after the longest prompt."""
    finite: bool | None
    """Whether log-probabilities, loss and gradient are finite; None if no update was tried."""
    load_s: float
    limit: float
    """Time limit of the check, in seconds."""
    time: TimeEstimate | None
    """None if no group of answers ended in time."""
    interrupted: bool = False
    """Whether Ctrl-C ended the check."""

    @property
    def answers(self) -> int:
        """Return the number of judged answers."""
        return sum(self.sampled[name] for name in ("correct", "wrong", "unparsed", "timeout"))


@dataclass(frozen=True)
class Checked(Training):
    """The result of a check."""

    tried: Tried | None
    """None if the model does not fit into memory."""
    ready: bool
    verdict: str
    changes: tuple[str, ...]
    """Advised settings, each as KEY=VALUE."""
