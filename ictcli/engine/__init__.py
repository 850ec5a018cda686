"""The seam between the algorithm and a device: one protocol, and what every engine shares."""

from ictcli.engine.protocol import Engine
from ictcli.engine.registry import (
    LIBRARIES,
    build_engine,
    choose_backend,
    installed_engines,
    is_installed,
    on_apple_silicon,
    run_in_ranks,
    versions,
)

__all__ = [
    "LIBRARIES",
    "Engine",
    "build_engine",
    "choose_backend",
    "installed_engines",
    "is_installed",
    "on_apple_silicon",
    "run_in_ranks",
    "versions",
]
