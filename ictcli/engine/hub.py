"""Checking whether the Hugging Face hub answers, and setting the libraries offline if not."""

import contextlib
import functools
import os
import sys
import threading
from typing import Any, cast

WAIT_S = 3.0
"""Seconds to wait for the hub's answer."""
VARIABLES = ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
OFF = ("", "0", "FALSE", "NO", "OFF")


def offline_variable() -> str | None:
    """Return the environment variable that keeps this process offline, if one does."""
    names = (name for name in VARIABLES if os.environ.get(name, "").upper() not in OFF)
    return next(names, None)


@functools.cache
def answers() -> bool:
    """Return whether the hub answers; this is checked once per process. If it does not, set the
    libraries to offline mode, as they would retry each request for most of a minute."""
    if offline_variable():
        return False
    import huggingface_hub

    hub = cast(Any, huggingface_hub)
    reached = threading.Event()

    def ask() -> None:
        with contextlib.suppress(Exception):
            hub.get_session().head(hub.constants.ENDPOINT, timeout=WAIT_S)
            reached.set()

    asking = threading.Thread(target=ask, daemon=True)  # a name lookup has no timeout
    asking.start()
    asking.join(WAIT_S)
    if not reached.is_set():
        hub.constants.HF_HUB_OFFLINE = True
        if "datasets" in sys.modules:
            cast(Any, sys.modules["datasets"]).config.HF_HUB_OFFLINE = True
    return reached.is_set()


def silence() -> str:
    """Return why the hub cannot be reached, as the end of a sentence."""
    if variable := offline_variable():
        return f"{variable} keeps this machine offline"
    return "the hub does not answer"
