"""Keys and values that recipes had before: what to write instead.

A recipe that names one is refused with a sentence. A run's recipe holds every key, so old keys
without effect are dropped when it is read; a run that used one is listed, shown, evaluated and
exported, and is not resumed."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from ictcli.algorithm.methods import METHODS
from ictcli.errors import UserError

ANY = object()
"""Among values: every value."""


@dataclass(frozen=True)
class Gone:
    key: str
    instead: str
    """What to write in its place."""
    values: tuple[Any, ...] = (ANY,)
    """The values that are gone."""
    idle: tuple[Any, ...] = ()
    """Those of them with which a run did nothing that it does not do now."""
    now: Any = None
    """The value read in their place in a run's recipe; None: the key's default."""

    def names(self, value: object) -> bool:
        return ANY in self.values or value in self.values


PLUGIN = "a plugin of examples/methods brings it, and its README.md says which"
CONTEXTS = tuple(f"context:{n}" for n in range(1, 100))
MOVED = (
    *("gmts", "rsi", "quadrants", "lp_reg", "wapo", "nat", "stare", "tempo", "gtpo", "eapo"),
    *("pepo", "taco", "maxrl"),
)
GONE = (
    Gone("eval.temperatures", "ictcli eval --temperatures asks at other temperatures", idle=(ANY,)),
    Gone("curriculum", "leave it out: each epoch has a random order", idle=("none",)),
    *(
        Gone(f"{table}columns.difficulty", "leave it out: no order goes by it", idle=(ANY,))
        for table in ("", "eval.", "sft.")
    ),
    Gone("method.reference", "position, response or group says what u compares with", CONTEXTS),
    Gone(
        "method.min_entropy",
        "method.max_prob leaves out sure tokens",
        idle=(0.0, 0),
    ),
    Gone("method.name", PLUGIN, MOVED, now="grpo"),
    Gone(
        "method.name", "--methods of ictcli compare lists what there is", ("sc_grpo",), now="grpo"
    ),
    Gone("engine.backend", 'engine.backend = "torch"', ("trl",), idle=("trl",), now="torch"),
    Gone("engine.vllm_memory", "leave it out", idle=(0.3,)),
    Gone("engine.importance_cap", "leave it out", idle=(3.0,)),
    Gone("engine.shard", "engine.shard = true", ("blocks",), now=False),
    Gone("engine.sampler", 'engine.sampler = "own" or "vllm"', ("int8", "transformers"), now="own"),
    Gone("engine.vllm_server", 'engine.sampler = "vllm" runs it in the process', idle=("",)),
    Gone("engine.micro_batch", "engine.micro_tokens says how much a pass takes"),
    Gone("record.probe_every", "leave it out: no step is probed", idle=(ANY,)),
    Gone("record.probe_positions", "leave it out: no step is probed", idle=(ANY,)),
    Gone("adapter.kind", 'adapter.kind = "lora"', ("dora",), now="lora"),
    Gone("adapter.seed", "leave it out: adapters begin by the run's seed"),
    Gone("optimizer.kind", "leave it out: AdamW is the optimiser", idle=("adamw",)),
    Gone("optimizer.decay_steps", "linear and cosine reach 0 at the last step", idle=(0,)),
    Gone("log", 'log = ["tensorboard"] or ["wandb"]', ("trackio",), idle=("trackio",)),
)


def refuse(data: Mapping[str, Any], source: str) -> None:
    """Raise UserError if a recipe's tables name a key or a value that is gone."""
    for gone, _, _, value in _found(data):
        shown = f" = {value!r}" if ANY not in gone.values else ""
        raise UserError(f"{source}: {gone.key}{shown} is gone.", gone.instead)


def dropped(data: MutableMapping[str, Any]) -> list[str]:
    """Take what is gone out of a run's recipe, in place; the keys that the run had used."""
    used: list[str] = []
    if isinstance(data.get("method"), str):
        data["method"] = {"name": data["method"]}
    for gone, table, key, value in [*_found(data)]:
        if ANY not in gone.idle and value not in gone.idle:
            used.append(f"{gone.key} = {value!r}")
        if isinstance(table[key], list) and table[key] != value:
            table[key] = [each for each in cast(list[object], table[key]) if each != value]
        elif gone.now is None:
            del table[key]
        else:
            if gone.key == "method.name":
                table.clear()  # its options
            table[key] = gone.now
    return used


def _found(
    data: Mapping[str, Any],
) -> Iterator[tuple[Gone, MutableMapping[str, Any], str, object]]:
    """Yield what is gone in a recipe: its place, and its value or each item of a list."""
    for gone in GONE:
        head, _, key = gone.key.rpartition(".")
        table: Any = data
        for name in head.split(".") if head else ():
            table = cast(dict[str, Any], table).get(name) if isinstance(table, dict) else None
        if head and isinstance(table, str):  # `method = "ict"`
            table = {"name": table}
        if not isinstance(table, dict) or key not in table:
            continue
        table = cast(dict[str, Any], table)
        value: Any = table[key]
        if gone.key == "method.name" and (data.get("plugins") or value in METHODS):
            continue  # a plugin brings it
        parts: list[object] = [value]
        if isinstance(value, list) and ANY not in gone.values:
            parts = cast(list[object], value)
        for part in parts:
            if gone.names(part):
                yield gone, table, key, part
