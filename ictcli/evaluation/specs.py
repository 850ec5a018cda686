"""What is evaluated: models, and the problems that they are asked."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.engine.models import exported
from ictcli.errors import UserError
from ictcli.recipe import RecipeFile
from ictcli.recipe.data import ColumnSettings, Example, PromptSettings, RewardSettings
from ictcli.recipe.tables import EngineSettings
from ictcli.tables.numbers import listed
from ictcli.tasks import Benchmark
from ictcli.types import Problem, Sampling


@dataclass(frozen=True)
class BenchmarkSpec:
    """A benchmark with the problems that are evaluated."""

    benchmark: Benchmark
    problems: list[Problem]
    max_tokens: int
    stem: str
    """The samples are in STEM.jsonl: the name, numbered if it is taken."""
    examples: tuple[Example, ...] = ()
    """Those that `eval.shots` draws."""
    chunk: int | None = None
    """Problems a call of the engine, which decides the seeds; None: by the samples of each."""

    @property
    def name(self) -> str:
        return self.benchmark.name

    def asked(self, prompt: PromptSettings) -> PromptSettings:
        """Return the prompt settings for this benchmark: with drawn examples in the form of the
        benchmark's public figures, as far as the user does not say otherwise."""
        if not self.examples or self.benchmark.shots is None:
            return prompt
        template = self.benchmark.shots.template if prompt.template == "auto" else prompt.template
        suffix = prompt.suffix or ""  # the examples end as they do, not in a box
        update = {"examples": self.examples, "template": template, "suffix": suffix}
        return prompt.model_copy(update=update)

    def read_by(self, pattern: str | None) -> "BenchmarkSpec":
        """Return the benchmark with a model's answer pattern, where it has none."""
        domain = self.benchmark.domain
        domain = replace(domain, pattern=pattern if domain.pattern is None else domain.pattern)
        return replace(self, benchmark=replace(self.benchmark, domain=domain))


@dataclass(frozen=True)
class Trained:
    """The problems that a model was trained on, as far as its runs tell."""

    keys: AbstractSet[str] = frozenset()
    """`tasks.split.key_of` of each."""
    whole: bool = False
    """Whether these are all."""


@dataclass(frozen=True)
class ModelSpec:
    """A model to evaluate; if it is a run, with what its run decides."""

    model: str
    """As it was typed."""
    name: str
    """Short and unique."""
    build: Callable[[EngineSettings], Engine]
    engine: EngineSettings
    fingerprint: Callable[[], str]
    """A checksum of the weights."""
    prompt: PromptSettings
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int | None = None
    """Limit of the run's recipe; benchmarks have their own."""
    run: Path | None = None
    recipe: RecipeFile | None = None
    """The run's, as it was read."""
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    """Columns of the data that the run is evaluated or trained on; benchmarks have their own."""
    pattern: str | None = None
    """The answer pattern in training, as which its answers are read."""
    reward: RewardSettings = field(default_factory=RewardSettings)
    """The verifier and the limits of the run's evaluations, for problems of the user's own."""
    plugins: tuple[Path, ...] = ()
    """The run's."""
    trained_on: Callable[[], Trained] = Trained
    evaluated_on: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The data as the run's environment.json has it (`tasks.prepare.described`)."""
    known: bool = False
    """Whether it says how it is asked: runs and exports do."""

    @property
    def rows(self) -> int:
        """Rows decoded at once."""
        return self.engine.rows

    def load(self) -> Engine:
        return self.build(self.engine)

    def sampling(self, max_tokens: int, stop_ids: tuple[int, ...]) -> Sampling:
        return Sampling(max_tokens, self.temperature, self.top_p, self.top_k, stop_ids)


def short_names(models: Sequence[str], checkpoint: str | None = None) -> list[str]:
    """Return the last part of each model's path, or as many parts as make the names differ.
    UserError where two are one; with a `checkpoint` a run is not its last model."""
    paths = [Path(model) for model in models]
    places: dict[Path, str] = {}
    for model, path in zip(models, paths, strict=True):
        is_last = (path / "recipe.toml").is_file() and checkpoint is None
        place = exported(path) or path if is_last else path
        first = places.setdefault(place.resolve() if place.is_dir() else place, model)
        if first != model or models.count(model) > 1:
            raise UserError(f"{first} and {model} are the same model.", "once is enough")
    paths = [path.resolve() if path.name in ("", "..") else path for path in paths]
    parts = [Path(str(path).replace(":", "-")).parts for path in paths]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(part.strip("/") for part in path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return [name.strip("-") or "model" for name in names]
    return [f"{'-'.join(path[-1:])}-{number}" for number, path in enumerate(parts, 1)]


def unlike(models: Sequence[ModelSpec]) -> str | None:
    """Return a sentence on how the models are sampled or prompted differently, if they are."""
    keys = {
        "temperature": "temperature",
        "top_p": "sampling.top_p",
        "top_k": "sampling.top_k",
        "prompt": "prompt.*",
        "pattern": "reward.pattern",
    }
    differing = [
        key
        for name, key in keys.items()
        if any(getattr(model, name) != getattr(models[0], name) for model in models)
    ]
    if not differing:
        return None
    return f"The models differ in {listed(differing)}; KEY=VALUE sets one for all."
