"""The files that a recipe names: where they are, and the examples that are read at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from ictcli.recipe.settings import Example
from ictcli.rows import PROMPTS, read_file, text


def read_files(data: dict[str, Any], base: Path) -> None:
    """Make the paths in a recipe's tables absolute, each tried against the working directory, then
    against `base`; and put the examples of a file in the place of its path, so that a run's recipe
    shows what it began with."""
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
        if not isinstance(table, dict) or not isinstance(named := cast(Any, table).get(key), str):
            continue
        path, colon, function = named, "", ""
        if key == "verifier" and ".py:" in named:
            path, colon, function = named.rpartition(":")
        if found := [p for p in (Path(path), base / path) if exists(p)]:
            table[key] = f"{found[0].resolve()}{colon}{function}"
    table: Any = data.get("prompt")
    if isinstance(table, dict) and isinstance(name := cast(Any, table).get("examples"), str):
        examples = [example.model_dump() for example in read_examples(name)]
        data["prompt"] = {**cast(dict[str, Any], table), "examples": examples}


def read_examples(name: str) -> tuple[Example, ...]:
    """The rows of a .jsonl, .csv or .parquet file: prompt (or question, problem) and response."""
    return tuple(
        Example(prompt=text(row, *PROMPTS), response=text(row, "response"))
        for row in read_file(name).rows
    )
