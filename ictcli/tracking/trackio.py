"""trackio: its own folder on this machine (`trackio show`), or the Space of TRACKIO_SPACE_ID."""

import importlib
import os
from typing import Any

from ictcli.tracking import PROJECT, About, LibraryRun


def open_tracker(about: About) -> LibraryRun:
    library: Any = importlib.import_module("trackio")
    run = library.init(
        project=os.environ.get("TRACKIO_PROJECT", PROJECT),
        name=f"{about.folder.name}-{about.id}",  # it knows a run by its name alone
        config={**about.recipe, "environment": about.environment},
        resume="allow",
        private=True,
        embed=False,
        auto_log_gpu=False,
        auto_log_cpu=False,
    )
    return LibraryRun(run)
