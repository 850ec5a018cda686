"""The models of an evaluation: how each is named, loaded, prompted and sampled."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ictcli.engine import Engine
from ictcli.engine.checksums import fingerprint
from ictcli.engine.models import locate
from ictcli.errors import UserError
from ictcli.recipe.settings import PromptSettings
from ictcli.types import Sampling


@dataclass(frozen=True)
class ModelSpec:
    """A model to evaluate; if it is a run, with what its run decides."""

    model: str
    """As it was typed."""
    name: str
    """Short and unique."""
    load: Callable[[], Engine]
    fingerprint: Callable[[], str | None]
    """A checksum of the weights; None if only the engine knows where they are."""
    rows: int
    """Rows decoded at once (`engine.rows`)."""
    prompt: PromptSettings
    temperature: float
    top_p: float
    top_k: int
    run: Path | None = None
    pattern: str | None = None
    """The answer pattern in training; benchmarks have their own."""
    plugins: tuple[Path, ...] = ()
    """The run's."""
    trained_on: Collection[str] = ()
    """Keys (`tasks.split.key_of`) of the problems that the run trains on."""

    def sampling(self, max_tokens: int, stop_ids: tuple[int, ...]) -> Sampling:
        return Sampling(max_tokens, self.temperature, self.top_p, self.top_k, stop_ids)


def fingerprint_of(model: str) -> Callable[[], str | None]:
    """A function that gives the fingerprint of a model folder or hub id. Checks its files now."""
    source = locate(model)
    return lambda: fingerprint(source)


def short_names(models: Sequence[str]) -> list[str]:
    """The last part of each model's path, or as many parts as make the names differ."""
    if len(set(models)) < len(models):
        twice = next(model for model in models if models.count(model) > 1)
        raise UserError(f"The model {twice} is named twice.", "once is enough")
    paths = [Path(model) for model in models]
    paths = [path.resolve() if path.name in ("", "..") else path for path in paths]
    parts = [Path(str(path).replace(":", "-")).parts for path in paths]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(part.strip("/") for part in path[-depth:]) for path in parts]
        if len(set(names)) == len(names):
            return [name.strip("-") or "model" for name in names]
    return [f"{'-'.join(path[-1:])}-{number}" for number, path in enumerate(parts, 1)]


def unlike(models: Sequence[ModelSpec]) -> str | None:
    """A sentence on how the models are sampled or prompted differently; None if they are not."""
    keys = {"temperature": "temperature", "top_p": "sampling.top_p", "top_k": "sampling.top_k"}
    for name, key in keys.items():
        values = [getattr(model, name) for model in models]
        if len(set(values)) > 1:
            each = ", ".join(f"{m.name} {v:g}" for m, v in zip(models, values, strict=True))
            return f"The models differ in {name}: {each}; {key}=VALUE makes them one."
    if any(model.prompt != models[0].prompt for model in models):
        return (
            "The models' runs ask in different ways; prompt.template, prompt.system, "
            "prompt.suffix, prompt.examples make it one."
        )
    return None
