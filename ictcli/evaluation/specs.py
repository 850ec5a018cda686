"""The models to evaluate, and the benchmarks with their problems."""

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
    """A benchmark with the problems to evaluate."""

    benchmark: Benchmark
    problems: list[Problem]
    max_tokens: int
    stem: str
    """Samples are in STEM.jsonl; it is the benchmark's name, with -2 added if that is taken."""
    examples: tuple[Example, ...] = ()
    """Worked examples drawn for `eval.shots`."""
    chunk: int | None = None
    """Problems per engine call, which decides the seeds; None: see `evaluate.chunk_of`."""

    @property
    def name(self) -> str:
        return self.benchmark.name

    def asked(self, prompt: PromptSettings) -> PromptSettings:
        """Return the prompt settings for this benchmark. With worked examples, the template is that
        of the benchmark's published results unless the user sets one."""
        if not self.examples or self.benchmark.shots is None:
            return prompt
        template = self.benchmark.shots.template if prompt.template == "auto" else prompt.template
        suffix = prompt.suffix or ""  # the examples show the form of an answer
        update = {"examples": self.examples, "template": template, "suffix": suffix}
        return prompt.model_copy(update=update)

    def read_by(self, pattern: str | None) -> "BenchmarkSpec":
        """Return the benchmark, with a model's answer `pattern` if the benchmark has none."""
        domain = self.benchmark.domain
        domain = replace(domain, pattern=pattern if domain.pattern is None else domain.pattern)
        return replace(self, benchmark=replace(self.benchmark, domain=domain))


@dataclass(frozen=True)
class Trained:
    """The problems that a model was trained on, as far as its runs recorded them."""

    keys: AbstractSet[str] = frozenset()
    """`tasks.split.key_of` of each problem."""
    whole: bool = False
    """Whether `keys` has all problems that the model was trained on."""


@dataclass(frozen=True)
class ModelSpec:
    """A model to evaluate, with the settings of its run if it is a run."""

    model: str
    """The model as the user typed it."""
    name: str
    """A short name, unique among the models."""
    build: Callable[[EngineSettings], Engine]
    engine: EngineSettings
    fingerprint: Callable[[], str]
    """Returns a checksum of the weights."""
    prompt: PromptSettings
    temperature: float
    top_p: float
    top_k: int
    max_tokens: int | None = None
    """The run's limit of tokens per answer, for the user's own data; benchmarks set others."""
    run: Path | None = None
    recipe: RecipeFile | None = None
    """The content of the run's recipe."""
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    """The column names of the run's data, for the user's own data sets."""
    pattern: str | None = None
    """The answer pattern of the run, with which the model's answers are parsed."""
    reward: RewardSettings = field(default_factory=RewardSettings)
    """The verifier and limits of the run's evaluations, for the user's own data sets."""
    plugins: tuple[Path, ...] = ()
    """The run's plugin files."""
    trained_on: Callable[[], Trained] = Trained
    evaluated_on: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The record of the run's training and held-out problems and verifier in environment.json."""
    known: bool = False
    """Whether the model's folder records its prompt settings, as runs and exports do."""

    @property
    def rows(self) -> int:
        """Return the largest number of answers that the engine samples in parallel."""
        return self.engine.rows

    def load(self) -> Engine:
        return self.build(self.engine)

    def sampling(self, max_tokens: int, stop_ids: tuple[int, ...]) -> Sampling:
        return Sampling(max_tokens, self.temperature, self.top_p, self.top_k, stop_ids)


def short_names(models: Sequence[str], checkpoint: str | None = None) -> list[str]:
    """Return a unique name for each model, from the end of its path. UserError if two are the same
    model. A run's folder means its final model unless `checkpoint` is given."""
    paths = [Path(model) for model in models]
    places: dict[Path, str] = {}
    for model, path in zip(models, paths, strict=True):
        is_last = (path / "recipe.toml").is_file() and checkpoint is None
        place = exported(path) or path if is_last else path
        first = places.setdefault(place.resolve() if place.is_dir() else place, model)
        if first != model or models.count(model) > 1:
            raise UserError(f"{first} and {model} are the same model.", "name it once")
    paths = [path.resolve() if path.name in ("", "..") else path for path in paths]
    parts = [Path(str(path).replace(":", "-")).parts for path in paths]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(part.strip("/") for part in path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return [name.strip("-") or "model" for name in names]
    return [f"{'-'.join(path[-1:])}-{number}" for number, path in enumerate(parts, 1)]


def unlike(models: Sequence[ModelSpec]) -> str | None:
    """Return a note if the models are not all sampled and prompted alike; None if they are."""
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
    return f"The models differ in {listed(differing)}; KEY=VALUE sets a key for all models."
