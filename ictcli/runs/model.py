"""Runs as models to evaluate: their weights, and their settings for prompts and sampling."""

import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from ictcli.engine import Engine, build_engine, checksums
from ictcli.engine.model_files import ASKED
from ictcli.engine.models import EXPORTS, locate
from ictcli.errors import UnknownCodeError, UserError
from ictcli.evaluation.settings import JUDGING, EvaluationSettings, ModelSettings
from ictcli.evaluation.specs import ModelSpec, Trained, short_names
from ictcli.files import gate, plugins
from ictcli.files.reading import parse_json, read_text
from ictcli.recipe import Recipe, RecipeFile, gone, read_recipe
from ictcli.recipe.data import ColumnSettings, Example, PromptSettings, RewardSettings
from ictcli.recipe.tables import EngineSettings, NewAdapters, RolloutSettings, SamplingSettings
from ictcli.runs import origin
from ictcli.runs.checkpoints import DAMAGE, check_finished, pick
from ictcli.runs.folder import is_run
from ictcli.runs.manifest import MANIFEST, checksum
from ictcli.runs.read import read_environment
from ictcli.runs.trained import trained_on
from ictcli.runs.trust import read_run

OF_ASKED: Mapping[str, Any] = {
    "temperature": True,
    "max_tokens": True,
    "sampling": {"top_p", "top_k"},
    "prompt": {"template", "system", "suffix", "thinking", "template_args"},
    "reward": {"pattern"},
    "engine": {"dtype"},
}
ALIKE = ("prompt", "pattern", "temperature", "top_p", "top_k")
"""Settings that a model without a run gets from the runs that it is compared with."""
RECIPES = {"builtin:chain": "chain", "builtin:ledger": "ledger"}
"""The recipe that trains each built-in model."""


def find_models(
    models: Sequence[str],
    settings: ModelSettings,
    checkpoint: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> list[ModelSpec]:
    """Return the specs of models: folders, hub ids and runs, checked without loading them.
    `checkpoint`, "best" or a step, applies to each of the runs."""
    if checkpoint is not None and not any(is_run(Path(model)) for model in models):
        raise UserError(
            "--checkpoint needs a run, but no run is named.", "ictcli runs ls lists the runs"
        )
    named = zip(models, short_names(models, checkpoint), strict=True)
    specs = [_model_spec(model, name, checkpoint, settings, say) for model, name in named]
    return _asked_alike(specs, say)


def _asked_alike(specs: list[ModelSpec], say: Callable[[str], None]) -> list[ModelSpec]:
    """If the runs among the models (without runs: the exports) have equal prompt and sampling
    settings, return all models with these settings, so that only the weights differ."""
    references = [spec for spec in specs if spec.run] or [spec for spec in specs if spec.known]
    settings = [{name: getattr(spec, name) for name in ALIKE} for spec in references]
    if not settings or any(table != settings[0] for table in settings):
        return specs
    alike = [replace(spec, **settings[0]) for spec in specs]
    if names := [spec.name for spec, same in zip(specs, alike, strict=True) if spec != same]:
        like = "the run" if references[0].run else references[0].name
        say(f"note: {', '.join(names)}: prompted and sampled like {like}.")
    engines = [spec.engine for spec in references if spec.run]
    if not engines or any(engine != engines[0] for engine in engines):
        return alike
    return [spec if spec.known else replace(spec, engine=engines[0]) for spec in alike]


def _model_spec(
    model: str, name: str, checkpoint: str | None, typed: ModelSettings, say: Callable[[str], None]
) -> ModelSpec:
    """Return the spec of a model or run. `typed` settings override those of a run's recipe, of a
    built-in model's recipe, or of an exported model's file `ASKED`."""
    run = Path(model) if is_run(Path(model)) else None
    recipe, loaded, data = None, list[Path](), dict[str, Any]()
    trained, exported = EvaluationSettings(), False
    if run:
        recipe, trained, loaded = settings_of(run, say)
        data = read_environment(run).data.to_json()
    elif model in RECIPES:
        trained = _read(read_recipe(RECIPES[model]), say)[1]
    elif exported := Path(model, ASKED).is_file():
        trained = _exported(Path(model, ASKED))
    saved = pick(run, checkpoint) if run and checkpoint is not None else None
    if run and not saved:
        check_finished(run, *EXPORTS)
    engine = _overridden(trained.engine, typed.engine)
    if "trust_remote_code" in typed.engine.model_fields_set:
        gate.note_typed(f"model {model}")
    sampling = _overridden(trained.sampling, typed.sampling)
    if recipe and run and saved:
        build = partial(engine_at, run, recipe.data, saved)
        fingerprint = partial(_saved_as, saved)
    else:
        build = partial(engine_of, run) if run else partial(build_engine, model)
        fingerprint = partial(checksums.fingerprint, locate(model))
    temperatures = (typed.temperature, trained.temperature, 1.0)
    return ModelSpec(
        model=model,
        name=f"{name}-{saved.name}" if saved else name,
        build=build,
        fingerprint=fingerprint,
        engine=engine,
        prompt=_overridden(trained.prompt, typed.prompt),
        temperature=next(value for value in temperatures if value is not None),
        top_p=sampling.top_p,
        top_k=sampling.top_k,
        max_tokens=trained.max_tokens,
        run=run,
        columns=trained.columns,
        pattern=_overridden(trained.reward, typed.reward).pattern,
        reward=trained.reward.model_copy(update={"pattern": None}),
        plugins=tuple(loaded),
        recipe=recipe,
        trained_on=partial(trained_on, recipe) if recipe else Trained,
        evaluated_on=data,
        known=bool(run) or exported,
    )


def asked_in(recipe: Recipe, folder: Path) -> str:
    """Return a run's prompt and sampling settings as JSON, for the file `ASKED` of the exported
    `folder`; without examples in the prompt, which may be text of a data set. The dtype is included
    for a full model in float16 or float32, which bfloat16 would round."""
    included = {key: of for key, of in OF_ASKED.items() if key != "engine"}
    asked = recipe.model_dump(mode="json", include=included, exclude_none=True)
    if (folder / "config.json").is_file():
        config = parse_json(read_text(folder / "config.json"))
        if config.get("dtype") in ("float16", "float32") and "quantization" not in config:
            asked["engine"] = {"dtype": "float32"}
    if recipe.eval.temperature is not None:
        asked["temperature"] = recipe.eval.temperature
    return json.dumps(asked, indent=2) + "\n"


def _exported(file: Path) -> EvaluationSettings:
    """Return the settings in an exported model's file `ASKED`. Keys that no export writes are
    ignored, since the file may be a stranger's."""
    try:
        asked = {key: of for key, of in parse_json(read_text(file)).items() if key in OF_ASKED}
        for table in ("prompt", "reward", "engine"):
            names = OF_ASKED[table]
            asked[table] = {key: of for key, of in asked.get(table, {}).items() if key in names}
        return EvaluationSettings.model_validate_json(json.dumps(asked))
    except (AttributeError, ValueError) as error:  # pydantic's ValidationError too
        raise UserError(
            f"{file} has no valid settings for prompts and sampling.",
            "remove the file to use the default settings",
        ) from error


def _overridden(table: Any, typed: Any) -> Any:
    return table.model_copy(update={key: getattr(typed, key) for key in typed.model_fields_set})


def settings_of(
    run: Path, say: Callable[[str], None] = lambda text: None
) -> tuple[RecipeFile, EvaluationSettings, list[Path]]:
    """Return a run's recipe, its evaluation settings, and those of its plugins that could be
    loaded; `say` gets a sentence for each plugin that could not. UserError if recipe.toml is not a
    complete recipe."""
    try:
        return _read(read_run(run), say)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            reason = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        elif isinstance(error, KeyError):
            reason = f"it has no {error.args[0]}"
        else:
            reason = str(error)
        raise UserError(
            f"{run / 'recipe.toml'} is damaged, or not a run's recipe: {reason.rstrip('.')}.",
            f"restore the file, or evaluate the model alone: {run / 'model'}",
        ) from error


def _read(
    file: RecipeFile, say: Callable[[str], None]
) -> tuple[RecipeFile, EvaluationSettings, list[Path]]:
    data, loaded = copy.deepcopy(dict(file.data)), list[Path]()
    gone.dropped(data)  # keys that only older versions of ictcli had
    for name in plugins.listed(data):
        try:
            loaded.append(plugins.load(name))
        except UnknownCodeError:
            raise
        except UserError as error:
            say(f"note: {error.message}")
    table: object = data.get("reward")
    reward = cast(dict[str, Any], table) if isinstance(table, dict) else dict[str, Any]()
    reward = {key: reward[key] for key in JUDGING if key in reward}
    if judge := data.get("eval", {}).get("verifier"):
        reward["verifier"] = judge
    sampling = RolloutSettings.model_validate(data.get("sampling", {}))
    settings = EvaluationSettings(
        engine=EngineSettings.model_validate(data.get("engine", {})),
        prompt=_prompt(file.path, data.get("prompt", {})),
        sampling=SamplingSettings(top_p=sampling.top_p, top_k=sampling.top_k),
        temperature=float(data.get("eval", {}).get("temperature", data["temperature"])),
        max_tokens=data.get("max_tokens"),
        columns=_columns(data),
        reward=RewardSettings.model_validate(reward),
    )
    return replace(file, data=data), settings, loaded


def _columns(data: Mapping[str, Any]) -> ColumnSettings:
    trained = ColumnSettings.model_validate(data.get("columns", {}))
    return ColumnSettings.model_validate(data.get("eval", {}).get("columns", {})).filled_by(trained)


def _prompt(file: Path, table: dict[str, Any]) -> PromptSettings:
    """Return the prompt settings of a run's recipe. Examples drawn from the run's data are read
    from the run's folder, as the data may be gone. `max_tokens`, a filter for training, is 0."""
    prompt = PromptSettings.model_validate(table)
    examples = prompt.examples
    if prompt.shots:
        record = file.parent / "environment.json"
        try:
            drawn = parse_json(read_text(record))["data"]["examples"]
            examples = tuple(Example.model_validate(example) for example in drawn)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(
                f"{record} does not have the examples that were drawn for the run.",
                "restore the file, or evaluate the folder of the model alone",
            ) from error
    return prompt.model_copy(update={"examples": examples, "shots": 0, "max_tokens": 0})


def _saved_as(checkpoint: Path) -> str:
    return checksum(checkpoint / MANIFEST).sha256


def engine_of(run: Path, settings: EngineSettings) -> Engine:
    """Return an engine with the model or adapters of a finished run, in the dtype of training."""
    return build_engine(str(run), read_environment(run).typed(settings))


def engine_at(run: Path, recipe: Mapping[str, Any], path: Path, settings: EngineSettings) -> Engine:
    """Return an engine with the weights of a run at its checkpoint `path`."""
    adapter = NewAdapters.model_validate(recipe.get("adapter", {}))
    began, base = read_environment(run), locate(recipe["model"], trains=True)
    engine = build_engine(base.path, began.typed(settings), None, adapter)
    origin.check_same(run, began, origin.of_model(recipe["model"]))
    adapters = adapter.kind != "none"
    origin.check_engine(run, began, engine, adapters=adapters, option="--backend ")
    try:
        engine.restore(path)
    except DAMAGE as error:
        raise UserError(
            f"{path} cannot be loaded by this engine: {error!r}.",
            "use the engine.backend and engine.dtype of the run",
        ) from error
    return engine
