"""What the evaluation of a run takes over from its training."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ictcli.errors import UserError
from ictcli.recipe import load_recipe, plugins
from ictcli.recipe.settings import EngineSettings, Example, PromptSettings, SamplingSettings
from ictcli.tasks.custom import is_custom
from ictcli.tasks.prepare import task_of
from ictcli.tasks.split import digest_of, key_of


@dataclass(frozen=True)
class Trained:
    """How a model runs, is asked and is sampled; the defaults are for one that no run made."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    prompt: PromptSettings = field(default_factory=PromptSettings)
    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    temperature: float = 1.0
    pattern: str | None = None
    """How answers were read in training. A benchmark is read in its own way."""
    missing: tuple[str, ...] = ()
    """Plugins of the run that are not there any more: only its own benchmarks would need them."""
    plugins: tuple[Path, ...] = ()
    """Those that are."""


def as_trained(run: Path) -> Trained:
    """Read a run's recipe, and load its plugins where they still are. UserError where it is none,
    or only a part of one."""
    try:
        return _read(run / "recipe.toml")
    except (KeyError, ValueError, TypeError, AttributeError) as error:  # TOML's and pydantic's too
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        elif isinstance(error, KeyError):
            reason = f"it has no {error.args[0]}"
        else:
            reason = str(error)
        raise UserError(
            f"{run / 'recipe.toml'} is damaged, or no run's recipe: {reason.rstrip('.')}.",
            f"put it back as it was, or evaluate the model alone: {run / 'model'}",
        ) from error


def trained_on(run: Path) -> Collection[str]:
    """The keys (`tasks.split.key_of`) of the problems that a run trains on, where its task is data
    of one's own; none where that is no more to be read, or is not what the run began with. Those
    that only `prompt.max_tokens` left out, which takes a tokenizer to know, are among them."""
    try:
        recipe = load_recipe(run / "recipe.toml")
        if not is_custom(recipe.task) and recipe.data is None:
            return ()
        train = task_of(recipe).train
        recorded = json.loads((run / "environment.json").read_text(encoding="utf-8"))["data"]
        if not recipe.prompt.max_tokens and recorded["train"]["sha256"] != digest_of(train):
            return ()
    except (UserError, OSError, ValueError, KeyError, TypeError):
        return ()
    return {key_of(problem.prompt) for problem in train}


def _read(file: Path) -> Trained:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    missing: list[str] = []
    loaded: list[Path] = []
    for name in data.get("plugins", []):
        try:
            loaded.append(plugins.load(name))
        except UserError as error:
            missing.append(error.message)
    reward: Any = data.get("reward")
    temperature = data.get("eval", {}).get("temperature", data["temperature"])
    return Trained(
        EngineSettings.model_validate(data.get("engine", {})),
        _prompt(file, data.get("prompt", {})),
        SamplingSettings.model_validate(data.get("sampling", {})),
        float(temperature),
        cast(dict[str, Any], reward).get("pattern") if isinstance(reward, dict) else None,
        tuple(missing),
        tuple(loaded),
    )


def _prompt(file: Path, table: dict[str, Any]) -> PromptSettings:
    """How a run asked. The examples that were drawn for it stand beside its recipe, as the data
    they were drawn from need not; which problems were too long is a matter of training."""
    prompt = PromptSettings.model_validate(table)
    examples = prompt.examples
    if prompt.shots:
        place = file.parent / "environment.json"
        try:
            drawn = json.loads(place.read_text(encoding="utf-8"))["data"]["examples"]
            examples = tuple(Example.model_validate(one) for one in drawn)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{place} does not have the examples that were drawn for the run.",
                "put it back, or evaluate the model alone: its folder in the run",
            ) from error
    return prompt.model_copy(update={"examples": examples, "shots": 0, "max_tokens": 0})
