"""The interface between the algorithm and a device, and the code that all engines share."""

from ictcli.engine.protocol import Engine as Engine
from ictcli.engine.registry import build_engine as build_engine
from ictcli.engine.registry import choose_backend as choose_backend
from ictcli.engine.registry import is_installed as is_installed
from ictcli.engine.registry import on_apple_silicon as on_apple_silicon
from ictcli.engine.registry import run_in_ranks as run_in_ranks
from ictcli.engine.registry import versions as versions
