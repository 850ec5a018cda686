"""The data of a group of rollouts that the terminal, the text, the HTML page and --json show.

Rows, positions and prompts count from 1; lists have one entry per token. --json prints all fields
of `GroupView`."""

from dataclasses import dataclass

from ictcli.text import figure

FORMAT = 1
SYMBOLS = {"uniqueness": "u", "entropy": "H1", "purity": "β", "prob": "p"}
"""The statistics that are shown for a token, and their symbols."""
MARKS = {"correct": "✓", "wrong": "✗", "unparsed": "?", "timeout": "⌛"}
LEVELS = 6
"""Number of shades on a terminal, including no shade."""

Numbers = list[float | None]


@dataclass(frozen=True)
class RolloutView:
    """One rollout, with the tokens that each method keeps."""

    row: int
    text: str
    verdict: str
    extracted: str
    reason: str
    reward: float | None
    advantage: float | None
    finished: bool
    tokens: list[int]
    pieces: list[str]
    logp: Numbers
    stats: dict[str, Numbers]
    regime: list[str | None]
    """R_H if a higher probability of the token lowers the entropy H2, R_L if it raises H2; see
    `ictcli.algorithm.dynamics`. Empty if `prob` or `purity` was not recorded."""
    kept: dict[str, list[bool]]
    weights: dict[str, Numbers]

    @property
    def mark(self) -> str:
        return MARKS.get(self.verdict, "?")

    def summary(self, method: str) -> str:
        return (
            f"reward {figure(self.reward, 'g')}  advantage {figure(self.advantage, '+.2f')}  "
            f"{len(self.tokens)} tokens, {sum(self.kept[method])} kept"
            f"{'' if self.finished else ', cut off'}"
        )

    def values(self, by: str, method: str) -> list[float]:
        """Return the value that shades each token: a statistic `by`, or |weight| in `method`."""
        values = self.weights[method] if by == "weight" else self.stats[by]
        return [abs(value or 0.0) for value in values]

    def figures(self, t: int) -> dict[str, str]:
        """Return the recorded statistics of the token at `t`, from 0, by their symbols."""
        names = [name for name in SYMBOLS if name in self.stats]
        return {SYMBOLS[name]: figure(self.stats[name][t]) for name in names}


@dataclass(frozen=True)
class MethodView:
    """How many tokens a method keeps of the group, and which share of the whole step."""

    name: str
    about: str
    trained: bool
    kept: int
    share: float
    """Share of the step's tokens that the method keeps."""
    overlap_with_trained: float | None
    weight_top: float


@dataclass(frozen=True)
class GroupView:
    """The rollouts of one prompt of a recorded step."""

    format: int
    run: str
    file: str
    step: int
    steps: list[int]
    prompt: int
    prompts: int
    problem: dict[str, str]
    by: str
    shown: str
    """The method whose tokens are marked at first."""
    tops: dict[str, float]
    """Value of the deepest shade, by statistic; for weights this value is in `methods`."""
    methods: list[MethodView]
    missing: dict[str, str]
    """For each method that cannot be applied to this step, a sentence on the missing statistics."""
    notes: list[str]
    rollouts: list[RolloutView]
    tokenizer: bool

    def method(self, name: str) -> MethodView:
        return next(method for method in self.methods if method.name == name)

    def top(self, by: str, method: str) -> float:
        """Return the value that gets the deepest shade."""
        return self.method(method).weight_top if by == "weight" else self.tops[by]

    def deepest(self, by: str, method: str) -> list[tuple[RolloutView, int]]:
        """Return (rollout, position from 0) of each shaded token, the deepest shade first."""
        shaded = [
            (-value, rollout.row, t)
            for rollout in self.rollouts
            for t, value in enumerate(rollout.values(by, method))
            if value
        ]
        return [(self.rollouts[row - 1], t) for _, row, t in sorted(shaded)]


def level(value: float, top: float) -> int:
    """Return the shade of a value, 0 to LEVELS - 1, in equal steps up to `top`."""
    return min(LEVELS - 1, int(LEVELS * value / top)) if value > 0 else 0
