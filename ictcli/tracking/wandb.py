"""Weights & Biases: RUN/wandb, uploaded during the run where there is a key and a network.

Without a key, or an answer of the server, the run is offline, and `wandb sync RUN/wandb/offline-*`
sends it later. Neither the console, code, git nor the machine's name is taken.
"""

import importlib
import netrc
import os
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from ictcli.files import write_text
from ictcli.tracking import PROJECT, About, Tracker

ANSWER = 10.0
"""Seconds the server has for its first answer."""


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


def open_tracker(about: About) -> Tracker:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    library: Any = importlib.import_module("wandb")
    try:
        return Tracker(_init(library, about, mode()))
    except Exception:
        if mode() != "online":
            raise
        library.teardown()  # which holds the run's id
        return Tracker(_init(library, about, "offline"))


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
        id=_id(about.folder),
        name=about.folder.name,
        dir=str(about.folder),
        config={**about.recipe, "environment": about.environment},
        resume="allow",
        mode=how,
        settings=settings,
    )


def _id(folder: Path) -> str:
    """Eight characters, kept when the run is resumed."""
    path = folder / "wandb" / "id"
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        path.parent.mkdir(exist_ok=True)
        write_text(path, own := secrets.token_hex(4))
        return own
