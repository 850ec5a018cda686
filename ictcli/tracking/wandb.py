"""Weights & Biases: RUN/wandb, uploaded during the run where there is a key and a network.

Without a key, or an answer of the server, the run is offline, and `wandb sync RUN/wandb/offline-*`
sends it later. Neither the console, code, git nor the machine's name is taken.
"""

import importlib
import netrc
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ictcli.tracking import PROJECT, About, LibraryRun

ANSWER = 10.0
"""Seconds the server has for its first answer: fewer than a run waits at its end."""


def has_key() -> bool:
    """Whether a key is configured, as wandb looks for one."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    named = os.environ.get("NETRC")
    for path in [Path(named)] if named else [Path.home() / ".netrc", Path.home() / "_netrc"]:
        try:
            if netrc.netrc(path).authenticators(host):
                return True
        except (OSError, netrc.NetrcParseError):
            continue
    return False


def mode() -> str:
    """WANDB_MODE, else online where there is a key."""
    return os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")


def open_tracker(about: About) -> LibraryRun:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    library: Any = importlib.import_module("wandb")
    try:
        return LibraryRun(_init(library, about, mode()))
    except Exception as error:
        if mode() != "online":
            raise
        print(f"offline, since the server does not answer: {error}", flush=True)
        library.teardown()  # which holds the run's id
        return LibraryRun(_init(library, about, "offline"))


def _init(library: Any, about: About, how: str) -> Any:
    settings = library.Settings(
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        init_timeout=ANSWER,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    return library.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=about.id,
        name=about.folder.name,
        dir=str(about.folder),
        config={**about.recipe, "environment": about.environment},
        resume="allow",
        mode=how,
        settings=settings,
    )
