"""Data files, written by another's hand than ictcli's."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]


def sums(numbers: Iterable[int]) -> Rows:
    return [{"prompt": f"{n}+1=", "gold": str(n + 1)} for n in numbers]


def numbered(questions: Iterable[str], answer: str = "") -> Rows:
    """Each has its number as an answer, if all have not the same."""
    return [{"question": q, "answer": answer or str(n)} for n, q in enumerate(questions)]


def write(folder: Path, rows: Rows, kind: str = "jsonl", name: str = "rows") -> str:
    path = folder / f"{name}.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    elif kind == "json":
        path.write_text(json.dumps({"data": rows}))
    elif kind == "csv":
        flat = [{k: v if isinstance(v, str) else json.dumps(v) for k, v in r.items()} for r in rows]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(flat[0]))
            writer.writeheader()
            writer.writerows(flat)
    elif kind == "parquet":
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        import datasets

        datasets.Dataset.from_list(rows).save_to_disk(str(path))
    return str(path)
