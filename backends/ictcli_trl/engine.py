"""Building the TRL engine, on one process or on all of a launch."""

from ictcli.engine import distributed
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings

from .communicator import communicator
from .distributed import TrlEngine
from .launch import launched
from .spread import SpreadEngine


def make(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None,
    adapters: AdapterSettings | None,
) -> TrlEngine:
    """An engine of this process. One that does not train has whole weights anyway."""
    kind = SpreadEngine if settings.sampler != "own" and optimizer else TrlEngine
    return kind(communicator(), model, settings, optimizer, adapters)


def build(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapters: AdapterSettings | None = None,
) -> TrlEngine:
    """Entry point `ictcli.engines`: the engine with `model` loaded; on rank 0 of a launch of
    several processes, the one that leads the others."""
    if launched():
        return distributed.lead(communicator(), make, model, settings, optimizer, adapters)
    return make(model, settings, optimizer, adapters)
