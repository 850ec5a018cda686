"""The tables of a recipe on problems, prompts and rewards."""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator

from ictcli.recipe.tables import Table

HOLDOUT = 16
"""One in this many problems of a data set is held out."""
TEMPLATES = ("auto", "chat", "none")
QUESTION = "{question}"
"""Placeholder of the question in a custom template."""
RESERVED = {
    "enable_thinking": "prompt.thinking sets it",
    "chat_template": "it is the model's own",
    **dict.fromkeys(
        ("conversation", "messages", "add_generation_prompt", "continue_final_message", "tokenize"),
        "ictcli sets it",
    ),
}
"""Arguments of a chat template that are no `prompt.template_args`, and why."""


class ColumnSettings(Table):
    """Columns of a custom data set. Without a name, the usual names are tried."""

    prompt: str | None = None
    """The question, as text or as messages with roles; default: prompt, question or problem, else
    messages or conversations."""
    gold: str | None = None
    """The correct answer: the text after `####`, in the last box, or all of it. Default: gold or
    answer, or a solution with a box; of messages that end with one, that of the assistant. A dotted
    name (`answer.value`) reaches into an object; any answer of a list counts."""
    gold_pattern: str | None = None
    """Regular expression whose last match in the gold's text is the answer, by its first group."""
    choices: str | None = None
    """Choices of a multiple-choice question: a list of texts, in CSV as JSON. Default: choices,
    or options where all golds are letters."""
    id: str | None = None
    """A unique id; default: id, or else the number of the line or row."""
    response: str | None = None
    """Worked response, shown (`prompt.shots`) or taught (`sft.data`); default: a solution or the
    gold."""

    def filled_by(self, other: "ColumnSettings") -> "ColumnSettings":
        """Return these names, and the other's where none is given."""
        return other.model_copy(update=self.model_dump(exclude_none=True))


class HubSettings(Table):
    """Which part of the data set `hub:owner/name` to use."""

    config: str | None = None
    """Config of the data set; required if it has several."""
    split: str | None = None
    """Split; default: train for a task, test for a benchmark, or the only one of a folder."""
    revision: str | None = None
    """Commit, branch or tag; default: the newest commit, which a note names."""


class Example(Table):
    """A question, as it is in the data, and the response to show for it."""

    prompt: str
    """The question."""
    response: str
    """The response."""


class PromptSettings(Table):
    """How a question becomes the model's prompt."""

    template: str = "auto"
    """chat = the tokenizer's chat template; none; auto = chat if there is one and the task is in
    words, else none; or a text with {question} in it, or a file of one: the whole prompt."""
    system: str = ""
    """System message, or text before the prompt where there is no chat template; empty = none."""
    suffix: str | None = None
    """Text after the question; default: the task's, or none with your own template."""
    thinking: Literal["on", "off"] | None = None
    """Passed to the chat template as `enable_thinking`; default: what the template does without."""
    template_args: dict[str, JsonValue] | None = None
    """Other arguments of the chat template."""
    examples: tuple[Example, ...] = Field(default=(), strict=False)
    """Few-shot examples, as turns of a chat or as text: a list of tables, or in TOML the path of a
    file with a prompt and a response per row."""
    shots: int = Field(default=0, ge=0)
    """Number of examples to draw from the training problems; these are then not trained on."""
    max_tokens: int = Field(default=0, ge=0)
    """Problems whose whole prompt is longer are left out; 0 = no limit."""

    @field_validator("template")
    @classmethod
    def _known_or_custom(cls, value: str) -> str:
        if value not in TEMPLATES and QUESTION not in value:
            raise ValueError(f"it is auto, chat, none, or a text with {QUESTION} in it")
        return value

    @field_validator("template_args")
    @classmethod
    def _not_reserved(cls, value: dict[str, JsonValue] | None) -> dict[str, JsonValue] | None:
        for name in RESERVED.keys() & (value or {}).keys():
            raise ValueError(f"{name} cannot be one of these arguments: {RESERVED[name]}")
        return value

    @property
    def template_arguments(self) -> dict[str, JsonValue]:
        """All arguments of the chat template."""
        thinking = {} if self.thinking is None else {"enable_thinking": self.thinking == "on"}
        return {**thinking, **(self.template_args or {})}

    @model_validator(mode="after")
    def _shots_or_examples(self) -> Self:
        if self.shots and self.examples:
            raise ValueError("prompt.shots draws the examples that prompt.examples gives: take one")
        return self


class SftSettings(Table):
    """Supervised steps before reinforcement learning, on responses that are given."""

    data: str | None = None
    """Examples with a prompt and a response: a .jsonl, .json, .csv or .parquet file, a folder of
    `save_to_disk`, or `hub:owner/name`; none of the held-out problems is used. Default: no such
    steps."""
    steps: int = Field(default=20, ge=0)
    """Number of optimiser updates."""
    batch: int = Field(default=16, ge=1)
    """Responses per update."""
    lr: float | None = Field(default=None, gt=0)
    """Learning rate; by default 2e-4 for adapters and 2e-5 for all weights."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `data`. `response` is what to train on; default: the assistant's last message, a
    response, completion or solution, or the answer in a box."""
    hub: HubSettings = HubSettings()
    """Which part of `data` to use, if it is `hub:owner/name`; `sft.hub.split` of a folder too."""


Signal = Literal["true", "random", "format"]


class RewardSettings(Table):
    """What a response is rewarded for, and how its answer is read and judged."""

    verifier: str | None = None
    """A verifier's name, `file.py:function` or `module:function`; default: the task's. A function
    may have TRL's form (docs/extending.md)."""
    functions: tuple[str, ...] = Field(default=(), strict=False)
    """List of more verifiers, whose rewards are added to that of the verdict."""
    weights: tuple[float, ...] = Field(default=(), strict=False)
    """Weight of each of `functions`; default: 1."""
    pattern: str | None = None
    """Regular expression whose last match is the answer, by its first group; default: the answer is
    the last box."""
    correct: float = 1.0
    """Weight of the verdict: 1 if correct, else 0, or the verifier's own score."""
    format: float = 0.0
    """Weight of giving any answer, right or wrong."""
    overlong: float = Field(default=0.0, ge=0)
    """Weight of DAPO's soft penalty on responses close to max_tokens (arXiv 2503.14476)."""
    overlong_buffer: int = Field(default=0, ge=0)
    """Tokens before max_tokens over which that penalty grows; 0 = a fifth of max_tokens."""
    length: float = Field(default=0.0, ge=0)
    """Weight of the penalty tokens / max_tokens."""
    signal: Signal = "true"
    """The reward to train on: true = that of these keys. Controls, for training only: random = 1 or
    0 by a fair coin; format = 1 for any answer that can be read."""
    timeout: float = Field(default=5.0, gt=0)
    """Seconds of CPU time to judge one answer; ten times as long on the clock."""
    memory: float = Field(default=1.0, gt=0)
    """GiB of memory to judge one answer."""

    @property
    def added(self) -> dict[str, tuple[str, float]]:
        """The verifier and the weight of each of `functions`, by its name in the metrics."""
        weights = self.weights or (1.0,) * len(self.functions)
        short = [name.rpartition(":")[2] for name in self.functions]
        again = [short[:place].count(own) for place, own in enumerate(short)]
        names = [f"{own}-{n + 1}" if n else own for own, n in zip(short, again, strict=True)]
        return dict(zip(names, zip(self.functions, weights, strict=True), strict=True))

    @property
    def names(self) -> list[str]:
        """Return names of verifiers whose mean rewards are metrics, as far as these keys tell."""
        own, _, function = (self.verifier or "").rpartition(":")
        judge = [function] if function and (own or self.functions) else []
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
        return "true" if value is True else value  # TOML's true, as `reward.signal=true` is


def distinct(what: str) -> AfterValidator:
    def check(values: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(values)) < len(values):
            raise ValueError(f"no {what} may stand there twice")
        return values

    return AfterValidator(check)


Ks = Annotated[tuple[int, ...], Field(strict=False), distinct("k")]
"""Values of k for pass@k."""


class EvalSettings(Table):
    """Evaluation on held-out problems: before, after, and during training."""

    problems: int = Field(default=512, ge=1)
    """Number of problems."""
    n: int = Field(default=4, ge=1)
    """Responses per problem."""
    k: Ks = (1, 4)
    """Values of k for pass@k, each at most n; a typed `eval.n` lowers them."""
    every: int = Field(default=0, ge=0)
    """Steps between evaluations during training; 0 = none."""
    temperature: float | None = Field(default=None, ge=0)
    """Sampling temperature; 0 = greedy. Default: the recipe's `temperature`."""
    verifier: str | None = None
    """Verifier of evaluations, named as `reward.verifier`; default: that of training, or the
    benchmark's."""
    bench: str | None = None
    """Source of the problems: a benchmark, a .jsonl, .json, .csv or .parquet file, a folder of
    `save_to_disk`, or `hub:owner/name`. None of them is trained on. Default: the task's held-out
    part."""
    holdout: int = Field(default=HOLDOUT, ge=2)
    """One in this many problems of your own data set is held out, by its text alone, if there is no
    `bench`."""
    data: str | None = None
    """File to use in place of that benchmark's data on the hub, with the same columns."""
    columns: ColumnSettings = ColumnSettings()
    """Columns of `bench`, if it is a file, a folder or `hub:owner/name`."""
    hub: HubSettings = HubSettings()
    """Which part of `bench` to use, if it is `hub:owner/name`; `eval.hub.split` of a folder too."""
    skip: int = Field(default=0, ge=0)
    """Number of held-out problems to skip at the front."""

    @model_validator(mode="after")
    def _enough_samples(self) -> Self:
        if not self.k or max(self.k) > self.n or min(self.k) < 1:
            fit = sorted({1, *(k for k in self.k if 1 <= k <= self.n)})
            raise ValueError(
                f"every k must lie in 1..n = {self.n}, and eval.k = {[*self.k]}; eval.k={fit} fits"
            )
        return self
