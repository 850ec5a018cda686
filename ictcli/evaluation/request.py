"""What `ictcli eval` is asked for: benchmarks, their data, the prompt, and the models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ictcli.engine import LIBRARIES, Engine, build_engine, choose_backend
from ictcli.engine.models import Source, locate
from ictcli.errors import UserError
from ictcli.evaluation.trained import Trained, as_trained
from ictcli.recipe.patterns import compiled
from ictcli.recipe.settings import (
    ColumnSettings,
    EngineSettings,
    HubSettings,
    PromptSettings,
)
from ictcli.runs import is_run
from ictcli.runs.checkpoints import engine_at, pick
from ictcli.tasks import Benchmark, find_benchmark
from ictcli.tasks.custom import HUB, is_custom
from ictcli.types import Problem, Sampling

RESERVED = ("settings", "timings", "results")
"""Names of the folder's own files, which no benchmark's samples go by."""


@dataclass(frozen=True)
class Request:
    """The same for all models; None: the model's run decides, or the default."""

    n: int = 16
    ks: tuple[int, ...] = (1, 4)
    seed: int = 0
    limit: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    engine: dict[str, Any] = field(default_factory=dict[str, Any])
    """Engine settings that were asked for."""
    prompt: dict[str, Any] = field(default_factory=dict[str, Any])
    """Prompt settings that were asked for."""
    columns: ColumnSettings = field(default_factory=ColumnSettings)
    """Of the benchmarks that are data sets of one's own, as `hub` is."""
    hub: HubSettings = field(default_factory=HubSettings)
    pattern: str | None = None
    timeout: float | None = None
    show_private: bool = False

    def check(self) -> None:
        """UserError where pass@k cannot be had of n samples, or the pattern is none."""
        if min(self.ks) < 1:
            raise UserError(f"There is no pass@{min(self.ks)}.", "--k 1,4: numbers from 1 up")
        if max(self.ks) > self.n:
            raise UserError(
                f"pass@{max(self.ks)} needs at least {max(self.ks)} samples a problem, "
                f"not n = {self.n}.",
                f"--n {max(self.ks)}, or a smaller --k",
            )
        if self.pattern is not None:
            compiled(self.pattern)
        try:
            PromptSettings.model_validate(self.prompt)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].removeprefix("Value error, ")
            raise UserError(
                f"The prompt cannot be made: {reason}.", "ictcli eval --help"
            ) from error


@dataclass(frozen=True)
class Asked:
    """A benchmark as it was asked for."""

    benchmark: Benchmark
    problems: list[Problem]
    max_tokens: int
    stem: str
    """Its samples are in STEM.jsonl."""

    @property
    def name(self) -> str:
        return self.benchmark.name


@dataclass(frozen=True)
class Contender:
    """A model as it was asked for, with what its run says of it."""

    model: str
    name: str
    """Short, and no other model's."""
    run: Path | None
    checkpoint: Path | None
    """Of the run; None: its final model."""
    source: Source | None
    """None: only its engine knows where it is."""
    trained: Trained
    engine: EngineSettings
    prompt: PromptSettings
    temperature: float
    top_p: float
    top_k: int

    def build(self) -> Engine:
        """Load the model."""
        if self.run is not None and self.checkpoint is not None:
            return engine_at(self.run, self.checkpoint, self.engine)
        return build_engine(self.model, self.engine)

    def sampling(self, max_tokens: int, stop_ids: tuple[int, ...]) -> Sampling:
        return Sampling(max_tokens, self.temperature, self.top_p, self.top_k, stop_ids)


def find_benchmarks(names: str, data: Sequence[str], request: Request) -> list[Asked]:
    """The benchmarks of a list with commas between. `data` are FILE, of the only benchmark, or
    NAME=FILE. UserError where the problems cannot be had."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",") if name.strip()))
    if not wanted:
        raise UserError("--bench names no benchmark.", "--bench math500,gsm8k")
    files = _files(wanted, data)
    if request.columns != ColumnSettings() and not any(map(is_custom, wanted)):
        raise UserError(f"--columns is of data sets of one's own, not of {names}.", "leave it out")
    if request.hub != HubSettings() and not any(name.startswith(HUB) for name in wanted):
        raise UserError(f"--hub is of hub:owner/name, not of {names}.", "leave it out")
    found: list[Asked] = []
    for name in wanted:
        columns = request.columns if is_custom(name) else None
        hub = request.hub if name.startswith(HUB) else None
        benchmark = find_benchmark(name, files.get(name), columns, hub)
        domain = benchmark.domain
        if request.pattern is not None:
            domain = replace(domain, pattern=request.pattern)
        if request.timeout is not None:
            domain = replace(domain, limits=replace(domain.limits, seconds=request.timeout))
        problems = benchmark.problems(request.limit)
        if not problems:
            raise UserError(f"The benchmark {name} has no problems.", "look at its data")
        if any(benchmark.name == other.name for other in found):
            raise UserError(
                f"--bench names the benchmark {benchmark.name} twice ({name} is another name of "
                "it).",
                "leave one of them out",
            )
        found.append(
            Asked(
                replace(benchmark, domain=domain),
                problems,
                request.max_tokens or benchmark.max_tokens,
                _stem(benchmark.name, [other.stem for other in found]),
            )
        )
    return found


def _stem(name: str, taken: Sequence[str]) -> str:
    """The stem of a benchmark's samples: its own, or with a number behind it where that is taken,
    also by a name that differs in its case alone, which is one file on some disks."""
    own = Path(name).stem
    out = {*RESERVED, *(other.casefold() for other in taken)}
    stem, number = own, 1
    while stem.casefold() in out:
        number += 1
        stem = f"{own}-{number}"
    return stem


def _files(names: Sequence[str], data: Sequence[str]) -> dict[str, str]:
    """The data file of each benchmark that was given one."""
    files: dict[str, str] = {}
    for given in data:
        name, equals, file = given.partition("=")
        if not equals or name not in names:
            if equals and not Path(given).is_file():
                raise UserError(
                    f"--data {given} is of none of the benchmarks {', '.join(names)}.",
                    f"--data {names[0]}=FILE.jsonl",
                )
            if len(names) > 1:
                raise UserError(
                    f"--data {given} does not say which of the {len(names)} benchmarks it is of.",
                    f"--data {names[0]}={given}",
                )
            name, file = names[0], given
        if name in files:
            raise UserError(f"--data names two files for {name}.", "one file each")
        files[name] = file
    return files


def find_contenders(
    models: Sequence[str], request: Request, checkpoint: str | None = None
) -> list[Contender]:
    """The models, their folders checked as far as that goes without loading them. `checkpoint` is
    the one of every run among them: best, or a step."""
    found: list[Contender] = []
    if checkpoint is not None and not any(is_run(Path(model)) for model in models):
        raise UserError("--checkpoint is of a run, and none is named.", "ictcli eval RUN ...")
    for model, name in zip(models, _names(models), strict=True):
        run = Path(model) if is_run(Path(model)) else None
        saved = pick(run, checkpoint) if run and checkpoint is not None else None
        trained = as_trained(run) if run else Trained()
        engine = trained.engine.model_copy(update=request.engine)
        known = choose_backend(engine.backend) in LIBRARIES
        sampling = trained.sampling
        found.append(
            Contender(
                model=model,
                name=f"{name}-{saved.name}" if saved else name,
                run=run,
                checkpoint=saved,
                source=locate(model) if known and not saved else None,
                trained=trained,
                engine=engine,
                prompt=trained.prompt.model_copy(update=request.prompt),
                temperature=_or(request.temperature, trained.temperature),
                top_p=_or(request.top_p, sampling.top_p),
                top_k=sampling.top_k,
            )
        )
    return found


def _or(asked: float | None, default: float) -> float:
    return default if asked is None else asked


def _names(models: Sequence[str]) -> list[str]:
    """The last part of each model's path, or more of its parts where those are not different."""
    if len(set(models)) < len(models):
        twice = next(model for model in models if models.count(model) > 1)
        raise UserError(f"The model {twice} is named twice.", "once is enough")
    unnamed = ("", "..")  # of `.`, `..` and the like: the folder's own name is another
    paths = [Path(model) for model in models]
    paths = [path.resolve() if path.name in unnamed else path for path in paths]
    parts = [Path(str(path).replace(":", "-")).parts for path in paths]
    for depth in range(1, max(map(len, parts), default=1) + 1):
        names = ["-".join(p.strip("/") for p in own[-depth:]) for own in parts]
        if len(set(names)) == len(names):
            return [name.strip("-") or "model" for name in names]
    return [f"{'-'.join(own[-1:])}-{number}" for number, own in enumerate(parts, 1)]


def unlike(contenders: Sequence[Contender]) -> str | None:
    """What the models' runs make them be asked or sampled by in different ways, as a sentence."""
    for what, option in (("temperature", "temperature"), ("top_p", "top-p"), ("top_k", "")):
        values = [getattr(contender, what) for contender in contenders]
        if len(set(values)) > 1:
            given = ", ".join(f"{c.name} {v:g}" for c, v in zip(contenders, values, strict=True))
            hint = f"; --{option} makes them one" if option else ""
            return f"The models differ in {what}: {given}{hint}."
    if any(contender.prompt != contenders[0].prompt for contender in contenders):
        return (
            "The models' runs ask in different ways; --template, --system, --suffix, "
            "--examples make it one."
        )
    return None
