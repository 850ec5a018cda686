"""The content of settings.json: all settings that determine the samples of an evaluation."""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from pydantic import JsonValue

from ictcli import __version__
from ictcli.engine import Engine, versions
from ictcli.evaluation.evaluate import chunk_of
from ictcli.evaluation.record import FORMAT
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec, ModelSpec
from ictcli.files.origin import Origin, of_files
from ictcli.recipe.data import PromptSettings
from ictcli.rewards import Verifier
from ictcli.tasks import prompts


def of_model(
    model: ModelSpec, engine: Engine, benchmarks: Sequence[BenchmarkSpec]
) -> dict[str, Any]:
    """Return the settings of a loaded model that determine its samples."""
    tokens = cast(list[Any], engine.tokenizer.convert_ids_to_tokens(list(engine.stop_ids)))
    return {
        "name": model.name,
        "fingerprint": model.fingerprint(),
        "engine": engine.describe(),
        **{name: getattr(model, name) for name in ("rows", "temperature", "top_p", "top_k")},
        # the tokens that end a response, by id
        "stop": {str(id_): str(token) for id_, token in zip(engine.stop_ids, tokens, strict=True)},
        "prompt": prompt_settings(model.prompt),
        **({"pattern": model.pattern} if model.pattern else {}),
        "template": {  # the text around a question, by benchmark
            spec.name: prompts.template_of(
                engine.tokenizer, spec.benchmark.domain, spec.asked(model.prompt)
            )
            for spec in benchmarks
        },
    }


def prompt_settings(prompt: PromptSettings) -> dict[str, JsonValue]:
    """Return the prompt settings that determine how a question is asked."""
    fields = prompt.model_dump(mode="json", include={"template", "system", "suffix", "examples"})
    arguments = prompt.template_arguments
    return fields | ({"template_arguments": arguments} if arguments else {})


def of_benchmark(spec: BenchmarkSpec) -> dict[str, Any]:
    """Return the checksum of a benchmark's problems, and the settings that judge answers."""
    domain = spec.benchmark.domain
    text = json.dumps([problem.to_json() for problem in spec.problems], sort_keys=True)
    return {
        "name": spec.name,
        "source": spec.benchmark.source,
        "problems": len(spec.problems),
        "sha256": hashlib.sha256(text.encode()).hexdigest(),
        "max_tokens": spec.max_tokens,
        "verifier": getattr(domain.verify, "name", getattr(domain.verify, "__name__", "own")),
        "pattern": domain.pattern,
        "timeout": domain.limits.seconds,
        "memory": domain.limits.memory,
        "private": domain.private,
        "shots": [example.model_dump() for example in spec.examples],
    }


def provenance_of(
    settings: EvaluationSettings,
    models: Sequence[Origin],
    benchmarks: Sequence[BenchmarkSpec],
    plugins: Sequence[Path],
) -> dict[str, Any]:
    """Return the content of settings.json. It holds checksums of `plugins`, the user's own code."""
    verifiers = [file for spec in benchmarks if (file := verifier_file(spec))]
    return {
        "format": FORMAT,
        "ictcli": __version__,
        "libraries": {name: text for name, text in versions().items() if name != "datasets"},
        "n": settings.n,
        "seed": settings.seed,
        "chunk": benchmarks[0].chunk or chunk_of(settings.n),
        "show_private": settings.show_private,
        "plugins": of_files([*plugins, *verifiers]),
        "models": list(models),
        "benchmarks": [of_benchmark(spec) for spec in benchmarks],
    }


def verifier_file(spec: BenchmarkSpec) -> Path | None:
    """Return the code file of a verifier that the user named as `file.py`, `file.py:function` or
    `module:function`; None for other verifiers."""
    verify = spec.benchmark.domain.verify
    source = verify.source if isinstance(verify, Verifier) else None
    if source is None:
        return None
    place = source if source.endswith(".py") else source.rpartition(":")[0]
    if place.endswith(".py"):
        return Path(place)
    file = getattr(sys.modules.get(place), "__file__", None)
    return Path(file) if file else None
