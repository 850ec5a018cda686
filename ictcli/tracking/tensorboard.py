"""Logging to TensorBoard: event files in RUN/tensorboard, written with tensorboardX."""

import importlib
import json
from collections.abc import Mapping
from typing import Any

from ictcli.tracking import About, Tracker


class TensorBoard(Tracker):
    def __init__(self, about: About) -> None:
        # TensorBoard hides what older files of the folder have from step purge_step on
        first = about.done + 1 if about.done else 0
        folder = about.folder / "tensorboard"
        nth = len(list(folder.iterdir())) if folder.is_dir() else 0
        suffix = f".{nth:04d}"  # orders files of the same second
        options = {"purge_step": first, "flush_secs": 10, "filename_suffix": suffix}
        writer: Any = importlib.import_module("tensorboardX").SummaryWriter
        super().__init__(writer(str(folder), **options))
        for name in ("recipe", "environment"):
            text = json.dumps(getattr(about, name), indent=2, ensure_ascii=False)
            indented = "".join(f"    {line}\n" for line in text.splitlines())
            self.run.add_text(name, indented, about.done)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self.run.add_scalar(name.replace("@", "_at_"), value, step)  # @ is not allowed
        self.run.flush()  # a resumed run logs no step before its checkpoint again

    def close(self) -> None:
        self.run.close()


open_tracker = TensorBoard
