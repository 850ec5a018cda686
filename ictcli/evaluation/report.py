"""results.json: one entry a model and benchmark, and the differences to the first model.

An entry (`"format": 1`) holds `model`, `name`, `benchmark`, `problems`, `n`; `pass@K` and `maj@N`
as `{value, low, high}` (maj@N is null where the verifier extracts no answers); `accuracy`,
`truncated`, `unparsed`, `timed_out` as shares of all samples; `tokens`, `tokens_per_response`,
`seconds`, `tokens_per_second`; `settings`, all that decided them; `correct` and `majority`, one
value a problem; `notes`; and `difference`, null for the first model, else `{to, pass@K, maj@N}`
with `{value, low, high, differs}` each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ictcli.engine import Engine
from ictcli.evaluation.identity import FORMAT
from ictcli.evaluation.passk import paired, pass_at_k
from ictcli.evaluation.record import Evaluation
from ictcli.evaluation.request import Asked, Contender, Request
from ictcli.tasks import prompts

FEW = 20
"""Problems below which a bootstrap interval is clearly too narrow."""


def entry(
    contender: Contender,
    asked: Asked,
    engine: Engine,
    found: Evaluation,
    request: Request,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """One model on one benchmark, with all that decided it; `settings` are the evaluation's."""
    own = next(one for one in settings["models"] if one["name"] == contender.name)
    bench = next(one for one in settings["benchmarks"] if one["name"] == asked.name)
    domain = asked.benchmark.domain
    hidden = domain.private and not request.show_private
    example = prompts.render(engine.tokenizer, asked.problems[0], domain, contender.prompt)[0]
    told = found.model_dump(mode="json")
    suffix = contender.prompt.suffix
    if suffix is None:
        suffix = "" if own["template"][asked.name] == "own" else domain.suffix
    decided = {
        **told["settings"],
        "stop": own["stop"],
        "template": own["template"][asked.name],
        "suffix": suffix,
        "example_prompt": None if hidden else example,
        "limit": request.limit,
        **{key: bench[key] for key in ("source", "sha256", "verifier", "pattern", "timeout")},
        "fingerprint": own["fingerprint"],
        "engine": own["engine"],
        "ictcli": settings["ictcli"],
        "libraries": settings["libraries"],
    }
    return {
        "format": FORMAT,
        "model": contender.model,
        "name": contender.name,
        **(told | {"settings": decided}),
        "notes": list(asked.benchmark.notes),
        "difference": None,
    }


def with_differences(
    entries: Sequence[dict[str, Any]], ks: Sequence[int], seed: int
) -> list[dict[str, Any]]:
    """The entries, those of later models with their paired differences to the first model's."""
    firsts: dict[str, dict[str, Any]] = {}
    found: list[dict[str, Any]] = []
    for one in entries:
        first = firsts.setdefault(one["benchmark"], one)
        differs = None if first["name"] == one["name"] else difference(one, first, ks, seed)
        found.append({**one, "difference": differs})
    return found


def difference(
    one: dict[str, Any], first: dict[str, Any], ks: Sequence[int], seed: int
) -> dict[str, Any]:
    """One entry less another of the same problems, n and seed."""
    n = one["n"]
    found: dict[str, Any] = {"to": first["name"]}
    for k in sorted(set(ks)):
        values = [pass_at_k(n, np.array(each["correct"]), k) for each in (one, first)]
        found[f"pass@{k}"] = paired(values[0], values[1], seed).json()
    votes = [one["majority"], first["majority"]]
    most = None
    if votes[0] is not None and votes[1] is not None:
        most = paired(np.array(votes[0]), np.array(votes[1]), seed).json()
    found[f"maj@{n}"] = most
    return found


def metrics_of(entries: Sequence[dict[str, Any]]) -> list[str]:
    """pass@K of every k, and maj@N where there is one."""
    passes = [key for key in entries[0] if key.startswith("pass@")]
    most = f"maj@{entries[0]['n']}"
    return passes + [most] * any(entry[most] is not None for entry in entries)
