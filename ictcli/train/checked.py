"""What `ictcli check` found out, and whether to train."""

from dataclasses import dataclass

from ictcli.planning.advice import MemoryCheck
from ictcli.planning.time_estimate import TimeEstimate
from ictcli.recipe import Recipe

FEW = 0.2
"""Share of groups with a signal below which most of the sampling is spent for nothing."""


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
class Answers:
    """How some answers were judged, in numbers of answers."""

    correct: int
    wrong: int
    unparsed: int
    timed_out: int
    truncated: int
    """Cut at max_tokens; of any verdict."""

    @property
    def total(self) -> int:
        return self.correct + self.wrong + self.unparsed + self.timed_out


@dataclass(frozen=True)
class Groups:
    """The groups of the sampled answers, by their rewards."""

    total: int
    with_signal: int
    all_right: int
    """Of those without a signal, as `all_wrong` is."""
    all_wrong: int


@dataclass(frozen=True)
class Overlap:
    """Held-out questions that are also in the training data."""

    heldout: int
    """To evaluate on."""
    all: int
    """Held out, from which those are taken; where a task makes its problems, those alone."""
    copies: int
    """Equal but for case and white space. They are left out of training."""
    near: int
    """Equal to one that is trained on but for their numbers."""


@dataclass(frozen=True)
class Tried:
    """What the model did."""

    shown: tuple[ShownPrompt, ...]
    greedy: Answers
    sampled: Answers
    """With `sampling.redraw` those to the step's own prompts, and so the groups."""
    groups: Groups
    rewards: dict[str, float | None]
    """The mean reward of each function, where there are several; None where it gave none."""
    reasons: dict[str, int]
    """Why answers are unparsed or timed out, the most frequent reason first."""
    unparsed: tuple[str, ...]
    """The first such answers."""
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
    notes: tuple[str, ...]
    overlap: Overlap
    memory: MemoryCheck
    tried: Tried | None
    """None where the model does not fit into memory."""
    ready: bool
    verdict: str
    changes: tuple[str, ...]
    """Settings, KEY=VALUE, that are advised."""


def verdict_of(
    recipe: Recipe, memory: MemoryCheck, tried: Tried | None, *, worked: bool
) -> tuple[bool, str, tuple[str, ...]]:
    """Whether to train, why, and the settings to try first. `worked`: the data has responses to
    show as examples."""
    if tried is None:
        changes = tuple(f"{t}.{key}={str(value).lower()}" for t, key, value in memory.changes)
        return False, memory.sentence, changes
    groups, sampled = tried.groups, tried.sampled
    if not tried.finite:
        said = "its log-probabilities, loss or gradient are not finite"
        return False, f"This model cannot be trained: {said}, before any step.", ()
    share = groups.with_signal / groups.total
    signal = "a correct response" if recipe.rule.of_correct else "unequal rewards"
    counts = f"{groups.with_signal} of {groups.total} groups have {signal}"
    if share >= FEW:
        return True, f"Train: {counts}, and so something to learn from.", ()
    begin = "Not yet: " + (f"only {counts}" if groups.with_signal else f"no group has {signal}")
    if 2 * sampled.truncated >= sampled.total:
        begin += ", as most answers are cut at max_tokens"
        if tried.room <= recipe.max_tokens:
            return False, f"{begin}, and the model's context has no room for longer ones.", ()
        return False, f"{begin}.", (f"max_tokens={min(2 * recipe.max_tokens, tried.room)}",)
    if 2 * sampled.unparsed >= sampled.total and recipe.sft.data:
        first = "most answers cannot be read yet. Supervised steps come first, and may teach it"
        return True, f"Train: {first}; the evaluation step-000000 will tell.", ()
    if 2 * sampled.unparsed >= sampled.total:
        advice = "most answers cannot be read. prompt.suffix or prompt.system can say how to answer"
        shown = worked and not recipe.prompt.examples and not recipe.prompt.shots
        shots = ("prompt.shots=2",) * shown
        advice += ", prompt.shots show it, reward.pattern reads it"
        taught = "supervised steps on a few examples teach it (sft.data=FILE)"
        return False, f"{begin}, as {advice}; {taught}.", shots
    wider = (f"group={2 * recipe.group}",)
    if 2 * groups.all_right >= groups.total:
        return False, f"{begin}, as most are all right. Harder problems teach more.", wider
    advice = "Easier problems, examples (prompt.shots) or a larger model help"
    return False, f"{begin}, as most are all wrong. {advice}; a larger group finds more.", wider
