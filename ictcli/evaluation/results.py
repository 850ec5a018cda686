"""results.json: an entry per model and benchmark, with differences from the first model."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic import JsonValue

from ictcli.engine import Engine
from ictcli.evaluation.passk import Difference, paired, pass_at_k
from ictcli.evaluation.record import FORMAT, Evaluation, Record, SampleSettings, Scored
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec, ModelSpec
from ictcli.files.origin import Origin
from ictcli.tasks import prompts


class ResultSettings(SampleSettings):
    """All settings that determine a result."""

    stop: dict[str, str]
    template: str
    suffix: str
    example_prompt: str | None
    """The first prompt; None where it is private."""
    limit: int | None
    source: dict[str, JsonValue]
    sha256: str
    verifier: str
    pattern: str | None
    timeout: float
    fingerprint: str | None
    engine: dict[str, JsonValue]
    ictcli: str
    libraries: dict[str, str]


class Differences(Scored):
    """Paired differences from the first model's scores."""

    to: str
    scores: dict[str, Difference | None]


class Head(Record):
    """The keys that an entry begins with."""

    format: int
    model: str
    name: str


class Result(Evaluation, Head):
    """An entry of results.json."""

    settings: ResultSettings  # pyright: ignore[reportIncompatibleVariableOverride]  # frozen
    notes: tuple[str, ...]
    trained_on: int | None = None
    """Problems that the run trained on; None: not known."""
    difference: Differences | None
    """None for the first model."""


def result_of(
    evaluation: Evaluation,
    model: ModelSpec,
    spec: BenchmarkSpec,
    engine: Engine,
    settings: EvaluationSettings,
    provenance: Origin,
    trained_on: int | None,
) -> Result:
    """The entry of an evaluation, without its difference."""
    loaded = next(entry for entry in provenance["models"] if entry["name"] == model.name)
    bench = next(entry for entry in provenance["benchmarks"] if entry["name"] == spec.name)
    domain, template = spec.benchmark.domain, loaded["template"][spec.name]
    hidden = domain.private and not settings.show_private
    prompt = spec.asked(model.prompt)
    example = prompts.render(engine.tokenizer, spec.problems[0], domain, prompt)
    suffix = prompt.suffix
    if suffix is None:
        suffix = "" if template == "own" else domain.suffix
    # of what two have, the later's counts
    decided: dict[str, Any] = {**provenance, **loaded, **bench, **dict(evaluation.settings)}
    decided |= {"template": template, "suffix": suffix, "limit": settings.limit}
    decided["example_prompt"] = None if hidden else example
    return Result.model_validate(
        {
            **dict(evaluation),
            "format": FORMAT,
            "model": model.model,
            "name": model.name,
            "settings": decided,
            "notes": spec.benchmark.notes,
            "trained_on": trained_on,
            "difference": None,
        }
    )


def with_differences(results: Sequence[Result]) -> list[Result]:
    """The results; those of later models have their paired differences from the first model."""
    firsts: dict[str, Result] = {}
    complete: list[Result] = []
    for result in results:
        first = firsts.setdefault(result.benchmark, result)
        differences = None if first.name == result.name else difference(result, first)
        complete.append(result.model_copy(update={"difference": differences}))
    return complete


def difference(result: Result, first: Result) -> Differences:
    """A result minus another with the same problems, n and ks."""
    scores: dict[str, Difference | None] = {**pass_differences(result, first)}
    votes = [np.array(each.majority) for each in (result, first) if each.majority is not None]
    scores[f"maj@{result.n}"] = paired(*votes) if len(votes) == 2 else None
    return Differences(to=first.name, scores=scores)


def pass_differences(evaluation: Evaluation, first: Evaluation) -> dict[str, Difference]:
    """pass@k and greedy of an evaluation minus those of another with the same problems, n and
    ks."""
    counts = [np.array(each.correct) for each in (evaluation, first)]
    scores: dict[str, Difference] = {}
    for name in evaluation.passes:
        k = int(name.removeprefix("pass@"))
        values, others = (pass_at_k(evaluation.n, correct, k) for correct in counts)
        scores[name] = paired(values, others)
    greedy = [each.solved[0.0] for each in (evaluation, first) if 0.0 in each.solved]
    return scores | ({"greedy": paired(*greedy)} if len(greedy) == 2 else {})


def metrics_of(results: Sequence[Evaluation]) -> list[str]:
    """The scores that some result has, in order: pass@K, then maj@N."""
    names = dict.fromkeys(name for result in results for name in result.scores)
    return [name for name in names if any(each.scores.get(name) for each in results)]
