"""Keys and values that earlier versions had, and what to write instead.

A recipe that uses them is refused with a hint. In the recipe of an old run, which contains every
key, they are dropped. A run that depended on them can be evaluated and exported, not resumed."""

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, cast

from ictcli.algorithm.methods import METHODS
from ictcli.errors import UserError

ANY = object()
"""Stands for every value of a key."""


@dataclass(frozen=True)
class Gone:
    """A removed key, or values of a key that were removed."""

    key: str
    instead: str
    """Hint: what to write instead."""
    values: tuple[Any, ...] = (ANY,)
    """The removed values."""
    idle: tuple[Any, ...] = ()
    """The removed values that had no effect, so that a run with them can be resumed."""
    now: Any = None
    """The value that replaces a removed value in a run's recipe; None = the key's default."""

    def names(self, value: object) -> bool:
        return ANY in self.values or value in self.values


PLUGIN = "load the plugin in examples/methods that defines the method (see README.md there)"
CONTEXTS = tuple(f"context:{n}" for n in range(1, 100))
MOVED = (
    *("gmts", "rsi", "quadrants", "lp_reg", "wapo", "nat", "stare", "tempo", "gtpo", "eapo"),
    *("pepo", "taco", "maxrl"),
)
GONE = (
    Gone("eval.temperatures", "ictcli eval --temperatures=0,1 samples at both", idle=(ANY,)),
    Gone("curriculum", "leave it out: each epoch has a random order", idle=("none",)),
    *(
        Gone(f"{table}columns.difficulty", "leave it out: problems have no order", idle=(ANY,))
        for table in ("", "eval.", "sft.")
    ),
    Gone("method.reference", "use position, response or group", CONTEXTS),
    Gone("method.min_entropy", "method.max_prob leaves out near-certain tokens", idle=(0.0, 0)),
    Gone("method.name", PLUGIN, MOVED, now="grpo"),
    Gone("method.name", "ictcli methods lists the methods", ("sc_grpo",), now="grpo"),
    Gone("engine.backend", 'engine.backend = "torch"', ("trl",), idle=("trl",), now="torch"),
    Gone("engine.vllm_memory", "leave it out", idle=(0.3,)),
    Gone("engine.importance_cap", "leave it out", idle=(3.0,)),
    Gone("engine.shard", "engine.shard = true", ("blocks",), now=False),
    Gone("engine.sampler", 'engine.sampler = "own" or "vllm"', ("int8", "transformers"), now="own"),
    Gone("engine.vllm_server", 'engine.sampler = "vllm" runs vLLM in the same process', idle=("",)),
    Gone("engine.micro_batch", "engine.micro_tokens limits the tokens of a pass"),
    Gone("record.probe_every", "leave it out: no step is probed", idle=(ANY,)),
    Gone("record.probe_positions", "leave it out: no step is probed", idle=(ANY,)),
    Gone("adapter.kind", 'adapter.kind = "lora"', ("dora",), now="lora"),
    Gone("adapter.seed", "leave it out: the run's seed initialises the adapters"),
    Gone("optimizer.kind", "leave it out: AdamW is the optimiser", idle=("adamw",)),
    Gone("optimizer.decay_steps", "linear and cosine reach 0 at the last step", idle=(0,)),
    Gone("log", 'log = ["tensorboard"] or ["wandb"]', ("trackio",), idle=("trackio",)),
)


def refuse(data: Mapping[str, Any], source: str) -> None:
    """Raise UserError if a recipe's tables contain a removed key or value."""
    for gone, _, _, value in _occurrences(data):
        text = f" = {value!r}" if ANY not in gone.values else ""
        raise UserError(f"{source}: {gone.key}{text} is gone.", gone.instead)


def dropped(data: MutableMapping[str, Any]) -> list[str]:
    """Drop or replace removed keys and values in a run's recipe, in place. Return those that had an
    effect on the run, as `key = value`."""
    used: list[str] = []
    if isinstance(data.get("method"), str):
        data["method"] = {"name": data["method"]}
    for gone, table, key, value in [*_occurrences(data)]:
        if ANY not in gone.idle and value not in gone.idle:
            used.append(f"{gone.key} = {value!r}")
        if isinstance(table[key], list) and table[key] != value:
            table[key] = [item for item in cast(list[object], table[key]) if item != value]
        elif gone.now is None:
            del table[key]
        else:
            if gone.key == "method.name":
                table.clear()  # the old method's options
            table[key] = gone.now
    return used


def _occurrences(
    data: Mapping[str, Any],
) -> Iterator[tuple[Gone, MutableMapping[str, Any], str, object]]:
    """Yield the removed keys and values in a recipe: entry of `GONE`, table, key, value or item."""
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
            continue  # a plugin may define this method
        parts: list[object] = [value]
        if isinstance(value, list) and ANY not in gone.values:
            parts = cast(list[object], value)
        for part in parts:
            if gone.names(part):
                yield gone, table, key, part
