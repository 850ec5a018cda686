"""Loads a recipe: reads TOML, applies `key=value` overrides, and checks it before any ML import."""

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ictcli.algorithm.methods import METHODS, ShareOptions, find_method
from ictcli.algorithm.registry import Settings
from ictcli.errors import UserError, nearest
from ictcli.files import gate, plugins
from ictcli.files.reading import LARGEST, parse_toml, read_bytes
from ictcli.recipe import gone
from ictcli.recipe.data import ColumnSettings, EvalSettings, HubSettings
from ictcli.recipe.files import find_recipe, is_of_run, read_files
from ictcli.recipe.generator import task_name
from ictcli.recipe.keys import (
    KEYS_HINT,
    NAMES,
    all_keys,
    apply_overrides,
    blamed,
    names_to_tables,
    typed_key,
)
from ictcli.recipe.metrics import unrecorded
from ictcli.recipe.other_task import leave_own_data
from ictcli.recipe.recipe import Recipe
from ictcli.text import compiled, escaped

T = TypeVar("T", bound=Settings)
NOTHING: Mapping[str, Any] = {}
_FORM_HINT = "ictcli recipes show quickstart prints an example"


@dataclass(frozen=True)
class RecipeFile:
    """A recipe file's content, before overrides and checks."""

    source: str
    """The recipe's name or path, as the user typed it."""
    path: Path
    data: Mapping[str, Any]
    """The recipe's tables, which must not be changed."""
    own: bool = False
    """Whether code named in the recipe may run; False for a run folder's recipe, for safety."""

    def __str__(self) -> str:
        return self.source


def recipe_text(path: Path) -> str:
    """Return the text of a recipe file, line ends unchanged. UserError if it is not UTF-8."""
    try:
        return read_bytes(path, LARGEST[".toml"]).decode()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8, as TOML has to be: {error}.", _FORM_HINT) from error


def read_recipe(source: str | Path) -> RecipeFile:
    """Read a recipe. UserError if it does not exist or is not TOML."""
    path = find_recipe(source) if isinstance(source, str) else source
    try:
        data = parse_toml(recipe_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not TOML: {error}.", _FORM_HINT) from error
    return RecipeFile(str(source), path, data, own=not is_of_run(path))


def load_recipe(source: str | Path | RecipeFile, overrides: Sequence[str] = ()) -> Recipe:
    """Read a recipe (see `read_recipe`), apply the overrides, and check it. Code named by the
    overrides may run; code named by the recipe may run only if `RecipeFile.own` is True.
    UserError if anything in it is wrong."""
    file = source if isinstance(source, RecipeFile) else read_recipe(source)
    data = copy.deepcopy(dict(file.data))
    if not file.own:
        gone.dropped(data)
    apply_overrides(data, overrides, Recipe)
    gone.refuse(data, str(file.path))
    typed = [*map(typed_key, overrides)]
    left = leave_own_data(data, file.data, file.path.parent, typed)
    if "eval.n" in typed and "eval.k" not in typed:
        _lower_k(data["eval"])
    own, base = data, file.path.parent
    if not file.own:  # no file is searched for in a run's folder
        gate.ask()
        own, base = dict[str, Any](), None
        apply_overrides(own, overrides, Recipe)
    return check(data, str(file.path), base, typed, own).without(left)


def _lower_k(table: dict[str, Any]) -> None:
    """Drop, in place, each value of `eval.k` above `eval.n`."""
    n, ks = table["n"], table.get("k", EvalSettings().k)
    if isinstance(n, int) and isinstance(ks, list | tuple):
        fitting = [k for k in cast(Sequence[Any], ks) if not isinstance(k, int) or k <= n]
        table["k"] = fitting or [1]


def check(
    data: dict[str, Any],
    source: str,
    base: Path | None = None,
    typed: Sequence[str] = (),
    own: Mapping[str, Any] = NOTHING,
) -> Recipe:
    """Return the validated recipe for this data (see `validate`), its method's options included."""
    recipe = validate(Recipe, data, source, base, typed=typed, own=own)
    name = recipe.method.get("name")
    if not isinstance(name, str):
        raise UserError(f"{source}: [method] needs a name.", "ictcli methods lists the methods")
    options, hint = find_method(name).options, "ictcli methods lists each method's options"
    values = {key: value for key, value in recipe.method.items() if key != "name"}
    _validated(options, values, source, typed, hint, "method.")
    for keys, message, hint in _faults_across(recipe):
        raise UserError(f"{blamed(source, typed, *keys)}: {message}", hint)
    return recipe


def validate(
    model: type[T],
    data: dict[str, Any],
    source: str,
    base: Path | None = None,
    hint: str = KEYS_HINT,
    typed: Sequence[str] = (),
    own: Mapping[str, Any] = NOTHING,
) -> T:
    """Return the validated settings in `data`, and load its plugins. Paths, relative to the working
    directory or else to `base`, become absolute, so that a run can be resumed from any folder.
    `own` is the part of the data that the user wrote, whose code may run. Raises UserError with
    `hint` if anything is wrong; its message names `source`, or "command line" for `typed` keys."""
    data = dict(data)
    if isinstance(data.get("plugins"), str | list):
        data["plugins"] = [
            str(plugins.load(name, base, typed="plugins" in own)) for name in plugins.listed(data)
        ]
    names_to_tables(data)
    if model is Recipe and "task" not in data and isinstance(data.get("data"), str):
        data["task"] = data.pop("data")
    if "task" in data:
        data["task"] = task_name(data["task"])
    read_files(data, base or Path())
    settings = _validated(model, data, source, typed, hint)
    _note_typed(settings, own)
    return settings


def _validated(
    model: type[T],
    data: Mapping[str, Any],
    source: str,
    typed: Sequence[str],
    hint: str,
    prefix: str = "",
) -> T:
    """Return the settings in `data`. In error messages the keys begin with `prefix`."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        faults = error.errors()
        unknown = (fault for fault in faults if fault["type"] == "extra_forbidden")
        fault = next(unknown, faults[0])  # an unknown key first: it may be a mistyped required key
        path = prefix + ".".join(map(str, fault["loc"]))
        source = blamed(source, typed, path)
        if fault["type"] != "extra_forbidden":
            raise _explain(fault, source, path, hint) from error
        known = [f"{prefix}{key}" for key in (*recipe_keys(model), *model.model_fields)]
        near = nearest(path, known, OTHERS) or nearest(path.split(".")[-1], known)
        raise UserError(f"{source}: there is no key {path!r}{near}.", hint) from error


OF_CODE = (("reward", "verifier"), ("reward", "functions"), ("eval", "verifier"))
"""Keys that may name code, in addition to `plugins` and `model`."""


def _note_typed(settings: Any, own: Mapping[str, Any]) -> None:
    """Allow the code to run that is named by the keys that the user wrote (`own`)."""
    for table, key in OF_CODE:
        value: object = own.get(table)
        if key in value if isinstance(value, dict) else value and NAMES.get(table) == key:
            named: Any = getattr(getattr(settings, table), key) or ()
            gate.note_typed(*((named,) if isinstance(named, str) else named))
    engine: Any = own.get("engine")
    if "model" in own and isinstance(engine, dict) and "trust_remote_code" in engine:
        gate.note_typed(f"model {settings.model}")


def _faults_across(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Yield settings of different tables that contradict each other: keys, message and hint."""
    reward, test, most = recipe.reward, recipe.eval, recipe.max_tokens
    if recipe.steps == 0 and not recipe.sft_steps:
        hint = "sft.data=FILE trains on the responses in a file, without RL"
        yield ("steps",), "steps = 0 trains nothing.", hint
    if (buffer := reward.overlong_buffer) > most:
        message = f"reward.overlong_buffer = {buffer} is more than max_tokens = {most}."
        hint = "the buffer is the last part of max_tokens"
        yield ("reward.overlong_buffer", "max_tokens"), message, hint
    if reward.pattern is not None:
        compiled(reward.pattern)
        if recipe.prompt.shots:
            message = "the examples of prompt.shots answer in a box, but reward.pattern expects "
            hint = "prompt.examples = a file of your own examples"
            yield ("prompt.shots", "reward.pattern"), f"{message}another form.", hint
    if test.bench is None and (test.columns, test.hub) != (ColumnSettings(), HubSettings()):
        message = "eval.columns and eval.hub need eval.bench, which is not set."
        yield ("eval.columns", "eval.hub"), message, "eval.bench=FILE or hub:owner/name"
    best = recipe.checkpoint.best
    if best is not None and (fault := unrecorded(recipe, best)):
        yield ("checkpoint.best",), f"checkpoint.best = {best!r} {fault[0]}.", fault[1]


def recipe_keys(model: type[BaseModel] = Recipe) -> Iterator[str]:
    """Yield every key of a recipe as a dotted path, then the options of all methods."""
    yield from (key.key for key in all_keys(model))
    if model is Recipe:
        options = {key for method in METHODS.values() for key in method.options.model_fields}
        yield from (f"method.{key}" for key in ["name", *sorted(options)])


OTHERS = {
    "learning_rate": "lr", "num_generations": "group", "batch_size": "prompts",
    "per_device_train_batch_size": "prompts", "num_iterations": "update.epochs",
    "max_steps": "steps", "num_train_epochs": "steps", "max_completion_length": "max_tokens",
    "max_new_tokens": "max_tokens", "max_prompt_length": "prompt.max_tokens", "beta": "kl",
    "epsilon": "clip.low", "epsilon_high": "clip.high", "loss_type": "method",
    "model_name_or_path": "model", "dataset_name": "data", "reward_funcs": "reward",
    "reward_weights": "reward.weights", "weight_decay": "optimizer.weight_decay",
    "max_grad_norm": "optimizer.clip_norm", "warmup_steps": "optimizer.lr_warmup",
    "lora_r": "adapter.rank", "lora_alpha": "adapter.alpha", "report_to": "log",
    "save_steps": "checkpoint.every", "eval_steps": "eval.every",
    "gradient_accumulation_steps": "prompts", "steps_per_generation": "update.minibatch",
    "lr_scheduler_type": "optimizer.decay", "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2", "bf16": "engine.dtype", "fp16": "engine.dtype",
    "use_peft": "adapter.kind", "use_vllm": "engine.sampler", "eval_strategy": "eval.every",
    "eval.limit": "eval.problems",
    "importance_sampling_level": "method", "scale_rewards": "method", "output_dir": "--run",
    "columns.question": "columns.prompt", "columns.problem": "columns.prompt",
    "columns.answer": "columns.gold", "columns.solution": "columns.gold",
}  # fmt: skip
"""Maps other trainers' names of keys to ours."""


_PLAINLY = {
    "dict_type": "input should be a method's name, or a table with a name",
    "model_type": "input should be a table; set the keys in it",
}


def _explain(fault: ErrorDetails, source: str, path: str, hint: str) -> UserError:
    if fault["type"] == "missing":
        return UserError(f"{source}: the key {path!r} is missing.", f"add {path} = ...")
    message = _PLAINLY.get(fault["type"], fault["msg"].removeprefix("Value error, "))
    message = message[:1].lower() + message[1:]
    is_table = isinstance(fault["input"], dict)  # the message then names the key in it
    value = "" if is_table else f" = {fault['input']!r}"
    return UserError(f"{source}: {path}{value}: {message}.", hint)


def to_toml(recipe: Recipe) -> str:
    """Return the resolved recipe as TOML; reading it returns an equal recipe."""
    return table_to_toml(recipe.model_dump(mode="json", exclude_none=True))


def table_to_toml(data: Mapping[str, Any]) -> str:
    """Return a recipe's tables as TOML, unchanged."""
    import tomli_w

    text = tomli_w.dumps(data)
    text.encode()  # raises UnicodeEncodeError for a path that TOML cannot express
    return escaped(text)


def unused_keys(recipe: Recipe, overrides: Sequence[str]) -> dict[str, str]:
    """Return the typed keys that have no effect, each with the setting that disables it."""
    method, no_adapter = recipe.rule, recipe.adapter.kind == "none"
    idle = (
        ("keep", not issubclass(method.options, ShareOptions), f"method={method.name}"),
        ("warmup", not method.dense_warmup, f"method={method.name}"),
        ("clip.", bool(method.clips), f"method={method.name}"),
        ("sft.", not recipe.sft.data, "no sft.data"),
        ("adapter.", no_adapter, "adapter.kind=none"),
    )
    return {
        key: why
        for key in map(typed_key, overrides)
        for name, is_idle, why in idle
        if is_idle and (key == name or (name.endswith(".") and key.startswith(name)))
        if key not in ("sft.data", "adapter.kind")
    }
