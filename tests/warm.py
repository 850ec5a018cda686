"""Imported by the process that `processes` forks: what commands and ranks need, loaded. It has one
thread, since threads do not survive a fork; MLX starts some, so who uses that loads it then."""

import gc
import importlib

from ictcli.cli import COMMANDS
from ictcli.engine import build_engine
from ictcli.recipe.tables import EngineSettings

LOADED = (
    *("torch._dynamo", "torch.distributed.tensor", "pandas", "peft", "pytest", "scipy.stats"),
    *("sympy", "transformers.models.qwen2.modeling_qwen2", "ictcli_torch.adapter"),
    *("ictcli_torch.ranks", "ictcli_torch.shard", *(f"ictcli.cli.{name}" for name in COMMANDS)),
    *("ictcli.train", "ictcli.compare", "ictcli.inspect"),
    *(f"ictcli.console.{name}" for name in ("live", "results", "runs", "compare", "inspect")),
)

for name in LOADED:
    importlib.import_module(name)
build_engine("builtin:chain", EngineSettings(backend="torch", threads=1))
gc.collect()
gc.freeze()  # no collection of a fork goes through the libraries' objects
