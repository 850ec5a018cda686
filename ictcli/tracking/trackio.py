"""trackio: its own folder on this machine (`trackio show`), or the Space of TRACKIO_SPACE_ID."""

import importlib
import os
from collections.abc import Mapping
from typing import Any

from ictcli.tracking import PROJECT, About


class Trackio:
    rewinds = False

    def __init__(self, about: About) -> None:
        library: Any = importlib.import_module("trackio")
        self._run = library.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=f"{about.folder.name}-{about.id}",  # it knows a run by its name alone
            config={**about.recipe, "environment": about.environment},
            resume="allow",
            private=True,
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


open_tracker = Trackio
