"""What decides the samples of an evaluation, as settings.json holds it, and how two differ."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from ictcli import __version__
from ictcli.engine import Engine, versions
from ictcli.engine.models import fingerprint
from ictcli.evaluation.evaluate import chunk_of
from ictcli.evaluation.request import Asked, Contender, Request
from ictcli.recipe.settings import PromptSettings
from ictcli.rewards import Verifier
from ictcli.runs.checkpoints import weights_of
from ictcli.tasks import prompts

FORMAT = 1


def model_settings(contender: Contender, engine: Engine, asked: Sequence[Asked]) -> dict[str, Any]:
    """What a loaded model is, and how it is asked and sampled."""
    source, saved = contender.source, contender.checkpoint
    return {
        "name": contender.name,
        "fingerprint": weights_of(saved) if saved else source and fingerprint(source),
        "engine": engine.describe(),
        "rows": contender.engine.rows,
        "temperature": contender.temperature,
        "top_p": contender.top_p,
        "top_k": contender.top_k,
        "stop": stop_tokens(engine),
        "prompt": prompt_settings(contender.prompt),
        "template": {
            one.name: prompts.template_of(engine.tokenizer, one.benchmark.domain, contender.prompt)
            for one in asked
        },
    }


def prompt_settings(prompt: PromptSettings) -> dict[str, Any]:
    """How questions are asked; each example as one text."""
    found = prompt.model_dump(include={"template", "system", "suffix"})
    if prompt.examples:
        found["examples"] = [json.dumps([one.prompt, one.response]) for one in prompt.examples]
    return found


def stop_tokens(engine: Engine) -> dict[str, str]:
    """The ids that end a response, each with its token."""
    names = cast(list[Any], engine.tokenizer.convert_ids_to_tokens(list(engine.stop_ids)))
    return {str(id_): str(name) for id_, name in zip(engine.stop_ids, names, strict=True)}


def benchmark_settings(asked: Asked) -> dict[str, Any]:
    """What a benchmark's problems are, and how they are judged."""
    domain = asked.benchmark.domain
    told = json.dumps([asdict(problem) for problem in asked.problems], sort_keys=True)
    return {
        "name": asked.name,
        "source": asked.benchmark.source,
        "problems": len(asked.problems),
        "sha256": hashlib.sha256(told.encode()).hexdigest(),
        "max_tokens": asked.max_tokens,
        "verifier": getattr(domain.verify, "name", getattr(domain.verify, "__name__", "own")),
        "pattern": domain.pattern,
        "timeout": domain.limits.seconds,
        "memory": domain.limits.memory,
        "private": domain.private,
    }


def settings_of(
    request: Request,
    models: Sequence[dict[str, Any]],
    asked: Sequence[Asked],
    plugins: Sequence[Path],
) -> dict[str, Any]:
    """The content of settings.json: all that decides the samples, and nothing else."""
    libraries = {name: found for name, found in versions().items() if name != "datasets"}
    found = {
        "format": FORMAT,
        "ictcli": __version__,
        "libraries": libraries,
        "n": request.n,
        "seed": request.seed,
        "chunk": chunk_of(request.n),
        "show_private": request.show_private,
        "plugins": _checksums([*plugins, *filter(None, map(verifier_file, asked))]),
        "models": list(models),
        "benchmarks": [benchmark_settings(one) for one in asked],
    }
    return json.loads(json.dumps(found))  # as it reads back


def verifier_file(asked: Asked) -> Path | None:
    """The file that a benchmark's verifier is in, where it is a user's: `file.py`,
    `file.py:function` or `module:function`."""
    verify = asked.benchmark.domain.verify
    source = verify.source if isinstance(verify, Verifier) else None
    if source is None:
        return None
    place = source if source.endswith(".py") else source.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    file = getattr(sys.modules.get(place), "__file__", None)
    return Path(file) if file else None


def _checksums(files: Iterable[Path]) -> dict[str, list[str]]:
    """The checksums of the files of each name, the same wherever they lie."""
    found: dict[str, list[str]] = {}
    for path in dict.fromkeys(file.resolve() for file in files):
        found.setdefault(path.name, []).append(hashlib.sha256(path.read_bytes()).hexdigest())
    return {name: sorted(found[name]) for name in sorted(found)}


def difference_of(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The settings in which two differ, as a clause: `n = 4, and now 8`; None where there are
    none."""
    old, new = dict(_flat(before)), dict(_flat(now))
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if not keys:
        return None
    # a model or benchmark more or less, before what hangs on it
    key = min(
        keys, key=lambda key: (key not in ("format", "models", "benchmarks"), keys.index(key))
    )
    more = f" ({len(keys) - 1} more differ)" if len(keys) > 1 else ""
    return f"{key} = {_shown(old.get(key))}, and now {_shown(new.get(key))}{more}"


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """(dotted path, value) of all that is no table; lists of tables go by their names."""
    if isinstance(value, dict):
        for key, inner in cast(dict[str, Any], value).items():
            yield from _flat(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        tables = cast(list[dict[str, Any]], value)
        yield path, [str(table.get("name")) for table in tables]
        for table in tables:
            yield from _flat(table, str(table.get("name")))
    else:
        yield path, value


def _shown(value: Any) -> str:
    text = ", ".join(cast(list[str], value)) if isinstance(value, list) else json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."
