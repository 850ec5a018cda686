"""The tables of a recipe that concern problems, prompts and rewards."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from ictcli.recipe.tables import Table

HOLDOUT = 16
"""By default, one of 16 problems of a data set is held out."""
TEMPLATES = ("auto", "chat", "none")
QUESTION = "{question}"
"""Placeholder of the question in a custom template."""
RESERVED = {
    "enable_thinking": "prompt.thinking sets it",
    "chat_template": "the model's own template is used",
    **dict.fromkeys(
        ("conversation", "messages", "add_generation_prompt", "continue_final_message", "tokenize"),
        "ictcli sets it",
    ),
}
"""Arguments of a chat template that `prompt.template_args` may not contain, and why."""


class ColumnSettings(Table):
    """Columns of a custom data set. If a name is not set, the usual names are tried."""

    prompt: str | None = None
    """Column of the question: a text, or messages with roles. Default: prompt, question or problem,
    else messages or conversations."""
    gold: str | None = None
    """Column of the correct answer: the text after `####` or in the last LaTeX box, else all text.
    Default: gold, answer, a solution with a box, or the assistant's message at the end of messages.
    A dotted name (`answer.value`) is a field of an object. Each item of a list is correct."""
    gold_pattern: str | None = None
    """Regular expression for the gold column; the answer is the first group of its last match."""
    choices: str | None = None
    """Column of the choices of a multiple-choice question: a list of texts (in CSV: as JSON).
    Default: choices, or options if all golds are letters."""
    id: str | None = None
    """Column of a unique id; default: id, or else the number of the row."""
    response: str | None = None
    """Column of a worked response, for few-shot examples (`prompt.shots`) or supervised steps
    (`sft.data`); default: solution, or else the gold."""

    def filled_by(self, other: "ColumnSettings") -> "ColumnSettings":
        """Return these settings, with the values of `other` for those that are not set."""
        return other.model_copy(update=self.model_dump(exclude_none=True))


class HubSettings(Table):
    """Part to use of a data set `hub:owner/name`."""

    config: str | None = None
    """Config (subset) of the data set; required if it has several."""
    split: str | None = None
    """Split to use; default: train for a task, test for a benchmark, or a folder's only split."""
    revision: str | None = None
    """Commit, branch or tag to use; default: the newest commit, which ictcli prints."""


class Example(Table):
    """A few-shot example."""

    prompt: str
    """The question, as in the data."""
    response: str
    """The response to show for this question."""


class PromptSettings(Table):
    """How a question becomes the model's prompt."""

    template: str = "auto"
    """chat = the tokenizer's chat template; none = plain text; auto = chat if the tokenizer has a
    template and the task is in natural language, else none. Or your own template: a text that
    contains {question}, or the path of a file with such a text."""
    system: str = ""
    """System message, or without a chat template the text before the prompt; empty = none."""
    suffix: str | None = None
    """Text after the question; default: the task's suffix, or none with your own template."""
    thinking: Literal["on", "off"] | None = None
    """Turn thinking on or off (the chat template's `enable_thinking`); default: the template's."""
    template_args: dict[str, JsonValue] | None = None
    """Other arguments to pass to the chat template."""
    examples: tuple[Example, ...] = Field(default=(), strict=False)
    """Few-shot examples, shown as turns of a chat or as text: a list of tables, or the path of a
    file with a prompt and a response per row."""
    shots: int = Field(default=0, ge=0)
    """Number of few-shot examples to draw from the training problems and exclude from training."""
    max_tokens: int = Field(default=0, ge=0)
    """Maximum prompt length in tokens; problems with longer prompts are left out. 0 = no limit."""

    @field_validator("template")
    @classmethod
    def _known_or_custom(cls, value: str) -> str:
        if value not in TEMPLATES and QUESTION not in value:
            raise ValueError(f"a template is auto, chat, none, or a text with {QUESTION} in it")
        return value

    @field_validator("template_args")
    @classmethod
    def _not_reserved(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        for name in RESERVED.keys() & (value or {}).keys():
            raise ValueError(f"{name} cannot be set here: {RESERVED[name]}")
        return value

    @property
    def template_arguments(self) -> dict[str, JsonValue]:
        """All arguments to pass to the chat template."""
        thinking = {} if self.thinking is None else {"enable_thinking": self.thinking == "on"}
        return {**thinking, **(self.template_args or {})}

    @model_validator(mode="after")
    def _shots_or_examples(self) -> Self:
        if self.shots and self.examples:
            raise ValueError("set prompt.shots or prompt.examples, not both")
        return self


TASK = "task"
"""Value of `sft.data` for the problems of the task itself."""


class SftSettings(Table):
    """Supervised steps before reinforcement learning, on example responses."""

    data: str | None = None
    """Examples with a prompt and a response: a .jsonl, .json, .csv or .parquet file, a folder saved
    by `save_to_disk`, or `hub:owner/name`; `task` takes the problems of the task, with their
    solutions or else their answers. Held-out problems are left out. Default: none."""
    steps: int = Field(default=20, ge=0)
    """Number of supervised steps, each one optimiser update."""
    batch: int = Field(default=16, ge=1)
    """Number of responses per supervised step."""
    lr: float | None = Field(default=None, gt=0)
    """Learning rate of the supervised steps; default: 2e-4 for adapters, 2e-5 for all weights."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `sft.data`. `response` is the text to train on; default: the assistant's last
    message, else response, completion or solution, else the answer in a LaTeX box."""
    hub: HubSettings = HubSettings()
    """Part to use of `sft.data` if it is `hub:owner/name`, or a folder (`hub.split` only)."""


Signal = Literal["true", "random", "format"]


class RewardSettings(Table):
    """What a response is rewarded for, and how its answer is found and judged."""

    verifier: str | None = None
    """Verifier that judges answers: a name, `file.py:function` or `module:function`; default: the
    task's. TRL's reward functions work too (docs/extending.md)."""
    functions: tuple[str, ...] = Field(default=(), strict=False)
    """More verifiers, whose rewards are added to the reward of the verdict."""
    weights: tuple[float, ...] = Field(default=(), strict=False)
    """Weight of each verifier in `reward.functions`; default: 1."""
    pattern: str | None = None
    """Regular expression that finds the answer in a response: the first group of its last match.
    Default: the answer is in the last LaTeX box."""
    correct: float = 1.0
    """Weight of the verdict, which is 1 for a correct answer, else 0, or the verifier's score."""
    format: float = 0.0
    """Reward for any readable answer, right or wrong."""
    overlong: float = Field(default=0.0, ge=0)
    """Weight of DAPO's soft penalty on responses close to max_tokens (arXiv 2503.14476)."""
    overlong_buffer: int = Field(default=0, ge=0)
    """Number of tokens below max_tokens over which that penalty grows; 0 = max_tokens / 5."""
    length: float = Field(default=0.0, ge=0)
    """Weight of the length penalty: response tokens / max_tokens."""
    signal: Signal = "true"
    """Reward to train on: true = as the other keys define it. Two control experiments: random = 0
    or 1 at random; format = 1 for every readable answer. Evaluations always use the true reward."""
    timeout: float = Field(default=5.0, gt=0)
    """Maximum CPU time to judge one answer, in seconds; the wall-clock limit is ten times that."""
    memory: float = Field(default=1.0, gt=0)
    """Maximum memory in GiB to judge one answer."""

    @property
    def added(self) -> dict[str, tuple[str, float]]:
        """Map the metric name of each verifier in `functions` to the verifier and its weight."""
        weights = self.weights or (1.0,) * len(self.functions)
        short = [name.rpartition(":")[2] for name in self.functions]
        earlier = [short[:place].count(name) for place, name in enumerate(short)]
        names = [f"{name}-{n + 1}" if n else name for name, n in zip(short, earlier, strict=True)]
        return dict(zip(names, zip(self.functions, weights, strict=True), strict=True))

    @property
    def names(self) -> list[str]:
        """The verifiers, known from the recipe alone, whose mean reward is a metric."""
        module, _, function = (self.verifier or "").rpartition(":")
        judge = [function] if function and (module or self.functions) else []
        return [*self.added, *judge]

    @model_validator(mode="after")
    def _as_many_weights(self) -> Self:
        if len(set(self.functions)) < len(self.functions):
            raise ValueError("reward.functions may name a verifier only once")
        if self.weights and len(self.weights) != len(self.functions):
            raise ValueError(
                f"reward.functions has {len(self.functions)} entries, and reward.weights "
                f"{len(self.weights)}"
            )
        return self

    @field_validator("signal", mode="before")
    @classmethod
    def _typed_bare(cls, value: Any) -> Any:
        return "true" if value is True else value  # `reward.signal=true` is TOML's true


def distinct(name: str) -> AfterValidator:
    def check(values: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(values)) < len(values):
            raise ValueError(f"every {name} may be listed only once")
        return values

    return AfterValidator(check)


Ks = Annotated[tuple[int, ...], Field(strict=False), distinct("k")]
"""Values of k for pass@k."""


class EvalSettings(Table):
    """Evaluation on held-out problems: before, after, and during training."""

    problems: int = Field(default=512, ge=1)
    """Maximum number of held-out problems to evaluate on."""
    n: int = Field(default=4, ge=1)
    """Number of responses per problem."""
    k: Ks = (1, 4)
    """Values of k for pass@k, each at most n. `eval.n=N` on the command line drops larger k."""
    every: int = Field(default=0, ge=0)
    """Number of steps between evaluations during training; 0 = none during training."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; 0 = greedy. Default: the recipe's `temperature`."""
    verifier: str | None = None
    """Verifier of evaluations (see `reward.verifier`); default: the benchmark's or training's."""
    bench: str | None = None
    """Problems to evaluate on: a benchmark, a .jsonl, .json, .csv or .parquet file, a folder saved
    by `save_to_disk`, or `hub:owner/name`; never trained on. Default: the task's held-out part."""
    holdout: int = Field(default=HOLDOUT, ge=2)
    """N = hold out one of N problems of your own data set, if `eval.bench` is not set."""
    data: str | None = None
    """File to use instead of the benchmark's data on the hub, with the same columns."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `eval.bench`, if it is a file, a folder or `hub:owner/name`."""
    hub: HubSettings = HubSettings()
    """Part to use of `eval.bench` if it is `hub:owner/name`, or a folder (`hub.split` only)."""
    skip: int = Field(default=0, ge=0)
    """Number of held-out problems to skip at the start."""

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if not self.k or max(self.k) > self.n or min(self.k) < 1:
            fit = sorted({1, *(k for k in self.k if 1 <= k <= self.n)})
            raise ValueError(
                f"every k must be in 1..n = {self.n}, but eval.k = {[*self.k]}; use eval.k={fit}"
            )
        return self
