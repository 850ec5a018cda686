"""Logging to Weights & Biases: RUN/wandb, uploaded during the run if there is an API key.

Without a key, or with WANDB_MODE=offline, `wandb sync RUN/wandb/offline-*` uploads it later. The
console, code, git state and the machine's name are not logged.
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
"""Seconds to wait for the server's first answer."""


def has_key() -> bool:
    """Return whether an API key is set in one of the places where wandb looks for it."""
    if os.environ.get("WANDB_API_KEY") or os.environ.get("WANDB_IDENTITY_TOKEN_FILE"):
        return True
    host = urlparse(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai")).hostname or ""
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def mode() -> str:
    """Return WANDB_MODE if it is set; else "online" if there is an API key, or else "offline"."""
    return os.environ.get("WANDB_MODE") or ("online" if has_key() else "offline")


def open_tracker(about: About) -> Tracker:
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    wandb: Any = importlib.import_module("wandb")
    settings = wandb.Settings(
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
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        id=_id(about.folder),
        name=about.folder.name,
        dir=str(about.folder),
        config={**about.recipe, "environment": about.environment},
        resume="allow",
        mode=mode(),
        settings=settings,
    )
    return Tracker(run)


def _id(folder: Path) -> str:
    """Return the run's id in wandb: eight characters, the same after a resume."""
    path = folder / "wandb" / "id"
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        path.parent.mkdir(exist_ok=True)
        write_text(path, run_id := secrets.token_hex(4))
        return run_id
