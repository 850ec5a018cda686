"""The files that a recipe names: their absolute paths, and the examples read from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ictcli.recipe.settings import Example
from ictcli.rows import PROMPTS, read_file, text


def read_files(data: dict[str, Any], base: Path) -> None:
    """In place: make the paths in a recipe's tables absolute, relative to the working directory or
    else to `base`, and replace the path of an examples file by its examples, so that a run's recipe
    holds them."""
    places = (
        (data, "model", Path.is_dir),
        (data, "task", Path.is_file),
        (data, "data", Path.is_file),
        (data.get("eval"), "bench", Path.is_file),
        (data.get("eval"), "data", Path.is_file),
        (data.get("reward"), "verifier", Path.is_file),
        (data.get("prompt"), "examples", Path.is_file),
    )
    for table, key, exists in places:
        if not isinstance(table, dict) or not isinstance(value := cast(Any, table).get(key), str):
            continue
        name, colon, function = value, "", ""
        if key == "verifier" and ".py:" in value:
            name, colon, function = value.rpartition(":")
        path = next((path for path in (Path(name), base / name) if exists(path)), None)
        if path is not None:
            table[key] = f"{path.resolve()}{colon}{function}"
    table: Any = data.get("prompt")
    if isinstance(table, dict) and isinstance(name := cast(Any, table).get("examples"), str):
        examples = [example.model_dump() for example in read_examples(name)]
        data["prompt"] = {**cast(dict[str, Any], table), "examples": examples}


def read_examples(name: str) -> tuple[Example, ...]:
    """The examples in a .jsonl, .csv or .parquet file, by its columns prompt (or question, problem)
    and response."""
    return tuple(
        Example(prompt=text(row, *PROMPTS), response=text(row, "response"))
        for row in read_file(name).rows
    )
