"""Weights & Biases: RUN/wandb, uploaded during the run where there is a key and a network.

Without a key, or an answer of the server, the run is offline, and `wandb sync RUN/wandb/offline-*`
sends it later. Neither the console, code, git nor the machine's name is taken.
"""

import importlib
import netrc
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ictcli.tracking import PROJECT, About

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


class Wandb:
    rewinds = False

    def __init__(self, about: About) -> None:
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        self._about = about
        self._library: Any = importlib.import_module("wandb")
        mode = os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")
        try:
            self._run: Any = self._init(mode)
        except Exception as error:
            if mode != "online":
                raise
            print(f"offline, since the server does not answer: {error}", flush=True)
            self._library.teardown()  # which holds the run's id
            self._run = self._init("offline")

    def _init(self, mode: str) -> Any:
        library, about = self._library, self._about
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
            mode=mode,
            settings=settings,
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


open_tracker = Wandb
