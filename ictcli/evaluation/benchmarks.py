"""The benchmarks of an evaluation: their problems, and how answers are judged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path

from ictcli.errors import UserError
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.recipe.settings import ColumnSettings, HubSettings, RewardSettings
from ictcli.rewards import find_verifier
from ictcli.tasks import Benchmark, Domain, find_benchmark
from ictcli.tasks.custom import HUB, is_custom
from ictcli.types import Problem

RESERVED = ("settings", "timings", "results")
"""Names that the evaluation's other files have."""


@dataclass(frozen=True)
class BenchmarkSpec:
    """A benchmark with the problems that are evaluated."""

    benchmark: Benchmark
    problems: list[Problem]
    max_tokens: int
    stem: str
    """The samples are in STEM.jsonl."""

    @property
    def name(self) -> str:
        return self.benchmark.name


def find_benchmarks(names: str, settings: EvaluationSettings) -> list[BenchmarkSpec]:
    """The benchmarks in a comma-separated list. UserError where problems are not available."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise UserError("--bench names no benchmark.", "--bench math500,gsm8k")
    files = _files(wanted, settings.data)
    if settings.columns != ColumnSettings() and not any(map(is_custom, wanted)):
        raise UserError(f"columns is of data sets of one's own, not of {names}.", "leave it out")
    if settings.hub != HubSettings() and not any(name.startswith(HUB) for name in wanted):
        raise UserError(f"hub is of hub:owner/name, not of {names}.", "leave it out")
    specs: list[BenchmarkSpec] = []
    for name in wanted:
        columns = settings.columns if is_custom(name) else None
        hub = settings.hub if name.startswith(HUB) else None
        benchmark = find_benchmark(name, files.get(name), columns, hub)
        problems = benchmark.problems(settings.limit)
        if not problems:
            raise UserError(f"The benchmark {name} has no problems.", "look at its data")
        if any(benchmark.name == spec.name for spec in specs):
            raise UserError(
                f"--bench names the benchmark {benchmark.name} twice ({name} is another name of "
                "it).",
                "leave one of them out",
            )
        specs.append(
            BenchmarkSpec(
                replace(benchmark, domain=_judged(benchmark.domain, settings.reward)),
                problems,
                settings.max_tokens or benchmark.max_tokens,
                _stem(benchmark.name, [spec.stem for spec in specs]),
            )
        )
    return specs


def _judged(domain: Domain, reward: RewardSettings) -> Domain:
    """A benchmark's domain with the verifier, pattern and limits that were set."""
    if reward.verifier is not None:
        domain = replace(domain, verify=find_verifier(reward.verifier))
    if reward.pattern is not None:
        domain = replace(domain, pattern=reward.pattern)
    limits = {"seconds": reward.timeout} if "timeout" in reward.model_fields_set else {}
    limits |= {"memory": reward.memory} if "memory" in reward.model_fields_set else {}
    return replace(domain, limits=replace(domain.limits, **limits))


def _stem(name: str, taken: Sequence[str]) -> str:
    """A name for a benchmark's file of samples; numbered if it is taken. Case does not count: on
    some disks it makes no difference."""
    stem = Path(name).stem
    excluded = {*RESERVED, *(other.casefold() for other in taken)}
    stems = chain([stem], (f"{stem}-{number}" for number in count(2)))
    return next(stem for stem in stems if stem.casefold() not in excluded)


def _files(names: Sequence[str], data: str | dict[str, str] | None) -> dict[str, str]:
    """The data file of each benchmark that has one."""
    if data is None:
        return {}
    if isinstance(data, dict):
        if unknown := [name for name in data if name not in names]:
            raise UserError(
                f"data.{unknown[0]} is of none of the benchmarks {', '.join(names)}.",
                f"data.{names[0]}=FILE.jsonl",
            )
        return data
    if len(names) > 1:
        raise UserError(
            f"data={data} does not say which of the {len(names)} benchmarks it is of.",
            f"data.{names[0]}={data}",
        )
    return {names[0]: data}
