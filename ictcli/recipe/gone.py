"""Keys that recipes had before: what to write instead.

A recipe that names one is refused with a sentence. A run's own recipe holds every key, so these are
dropped when it is read; a run that used one is listed, shown, evaluated and exported, and is not
resumed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ictcli.errors import UserError

ANY = object()
"""Among idle values: every value."""


@dataclass(frozen=True)
class Gone:
    """A key that is gone."""

    key: str
    instead: str
    """What to write in its place."""
    idle: tuple[Any, ...] = ()
    """Values with which a run did nothing that it does not do now."""


GONE = (
    Gone("eval.temperatures", "ictcli eval --temperatures asks at other temperatures", (ANY,)),
    Gone("curriculum", "leave it out: each epoch has a random order", ("none",)),
    *(
        Gone(f"{table}columns.difficulty", "leave it out: no order goes by it", (ANY,))
        for table in ("", "eval.", "sft.")
    ),
    Gone("method.reference", "u compares with the group at the same position", ("position",)),
    Gone("engine.vllm_memory", "leave it out", (0.3,)),
    Gone("engine.importance_cap", "leave it out", (3.0,)),
    Gone("engine.vllm_server", 'engine.sampler = "vllm" runs it in the process', ("",)),
    Gone("engine.micro_batch", "engine.micro_tokens says how much a pass takes"),
    Gone("record.probe_every", "leave it out: no step is probed", (ANY,)),
    Gone("record.probe_positions", "leave it out: no step is probed", (ANY,)),
    Gone("optimizer.kind", "leave it out: AdamW is the optimiser", ("adamw",)),
    Gone("optimizer.decay_steps", "linear and cosine reach 0 at the last step", (0,)),
)


def refuse(data: Mapping[str, Any], source: str) -> None:
    """UserError if a recipe's tables name a key that is gone."""
    for gone, _, _ in _present(data):
        raise UserError(f"{source}: {gone.key} is gone.", gone.instead)


def dropped(data: Mapping[str, Any]) -> list[str]:
    """Take the keys that are gone out of a run's recipe, in place; return those the run used."""
    used: list[str] = []
    for gone, table, key in [*_present(data)]:
        value = table.pop(key)
        if ANY not in gone.idle and value not in gone.idle:
            used.append(f"{gone.key} = {value!r}")
    return used


def _present(data: Mapping[str, Any]) -> Iterator[tuple[Gone, dict[str, Any], str]]:
    """What is gone in a recipe, with the table where it stands and its name there."""
    for gone in GONE:
        *names, key = gone.key.split(".")
        table: Any = data
        for name in names:
            table = cast(dict[str, Any], table).get(name) if isinstance(table, dict) else None
        if isinstance(table, dict) and key in table:
            yield gone, cast(dict[str, Any], table), key
