"""Finds a recipe and the files that it names, and reads few-shot examples and templates."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ictcli.errors import UserError, unknown
from ictcli.files.reading import MIB, read_bytes
from ictcli.recipe.data import QUESTION, TEMPLATES, Example
from ictcli.rows import PROMPTS, is_saved, read_file, text
from ictcli.text import shell_word


def read_files(data: dict[str, Any], base: Path) -> None:
    """Make the paths in a recipe's tables absolute, in place: relative to the working directory or
    else to `base`. The path of examples or of a template is replaced by the file's content."""
    places = (
        (data, "model", Path.is_dir),
        (data, "task", is_data),
        (data, "data", is_data),
        (data.get("eval"), "bench", is_data),
        (data.get("eval"), "data", is_data),
        (data.get("sft"), "data", is_data),
        (data.get("eval"), "verifier", Path.is_file),
        (data.get("reward"), "verifier", Path.is_file),
        (data.get("reward"), "functions", Path.is_file),
        (data.get("prompt"), "examples", Path.is_file),
    )
    for table, key, exists in places:
        if not isinstance(table, dict):
            continue
        value: Any = cast(Any, table).get(key)
        value = value.split(",") if key == "functions" and isinstance(value, str) else value
        if isinstance(value, str):
            table[key] = absolute(value, base, exists)
        elif isinstance(value, list):
            table[key] = [absolute(item, base, exists) for item in cast(list[Any], value)]
    if not isinstance(data.get("prompt"), dict):
        return
    prompt = data["prompt"] = dict(cast(dict[str, Any], data["prompt"]))
    if isinstance(name := prompt.get("examples"), str):
        prompt["examples"] = [example.model_dump() for example in read_examples(name)]
    if isinstance(template := prompt.get("template"), str):
        prompt["template"] = read_template(template, base)


def absolute(value: Any, base: Path, exists: Callable[[Path], bool]) -> Any:
    """Make a path, or the file of `FILE.py:function`, absolute if it exists; keep other values."""
    if not isinstance(value, str) or not value:
        return value
    name, colon, function = value.rpartition(":") if ".py:" in value else (value, "", "")
    path = next((path for path in (Path(name), base / name) if exists(path)), None)
    return value if path is None else f"{path.resolve()}{colon}{function}"


def is_data(path: Path) -> bool:
    return path.is_file() or is_saved(path)


def read_template(template: str, base: Path) -> str:
    """Return `template` if it is auto, chat, none or contains {question}. Otherwise it is a path:
    return the file's text without the final line end. UserError if there is no such file."""
    if template in TEMPLATES or QUESTION in template:
        return template
    path = next((p for p in (Path(template), base / template) if p.is_file()), None)
    if path is None:
        raise UserError(
            f"The template {template!r} is neither a template nor a file.",
            f"use auto, chat, none, a text with {QUESTION} in it, or the path of such a text",
        )
    try:
        text = read_bytes(path, 64 * MIB).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{template} is not UTF-8: {error}.", "save it as UTF-8") from error
    if QUESTION not in text:
        raise UserError(f"{template} has no {QUESTION} in it.", "put it where the question goes")
    return text.replace("\r\n", "\n").removesuffix("\n")


def read_examples(name: str) -> tuple[Example, ...]:
    """Read few-shot examples from the columns prompt (or question, problem) and response of a
    .jsonl, .json, .csv or .parquet file. Return no examples if the name is `none`."""
    if name == "none":
        return ()
    return tuple(
        Example(prompt=text(row, *PROMPTS), response=text(row, "response"))
        for row in read_file(name).rows
    )


def shipped_recipes() -> dict[str, Path]:
    """Return the paths of the recipes that come with ictcli, by name."""
    package = Path(__file__).parent.parent
    folder = package / "recipes"
    if not folder.is_dir():  # in an editable install they lie next to the package
        folder = package.parent / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.toml"))}


OF_RUNS = ("manifest.json", "environment.json", "metrics.jsonl", "checkpoints")
"""Files that distinguish a run folder from another folder with a recipe.toml."""


def is_of_run(path: Path) -> bool:
    """Return whether a file is the recipe.toml of a run folder, not a recipe to train."""
    beside = (path.parent / name for name in OF_RUNS)
    return path.name == "recipe.toml" and any(file.exists() for file in beside)


STARTER = "qwen3-0.6b-gsm8k"
"""The shipped recipe that hints suggest for the user's own model or data."""


def find_recipe(source: str) -> Path:
    """Return the path of a recipe: `source` is a path or the name of a shipped recipe. UserError if
    there is none; if `source` is a run, a model or data, the hint is the command to use instead."""
    path = Path(source)
    if "=" in source and not path.exists():
        message = f"{source} is a setting, and settings come after the recipe."
        raise UserError(message, f"ictcli check {STARTER} {shell_word(source)}")
    of_run, kind = path / "recipe.toml", "task" if is_data(path) else "model"
    if of_run.is_file():
        raise UserError(f"{source} is a run, not a recipe.", f"ictcli train {shell_word(of_run)}")
    if (path / "config.json").is_file() or (kind == "task" and path.suffix != ".toml"):
        command = f"ictcli check {STARTER} {kind}={shell_word(source)}"
        noun = "data" if kind == "task" else "a model"
        raise UserError(f"{source} is {noun}, not a recipe.", command)
    if source.endswith(".toml") or "/" in source:
        path = Path(source)
        if not path.is_file():
            raise UserError(f"There is no recipe file {source}.", "ictcli recipes ls")
        return path
    shipped = shipped_recipes()
    if source not in shipped:
        hint = "ictcli recipes ls, or the path of a .toml file; for data, use task=FILE"
        raise unknown("recipe", source, shipped, hint)
    return shipped[source]
