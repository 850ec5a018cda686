"""Evaluate every model on every benchmark, from the first check to the results."""

import contextlib
import gc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.engine.budget import is_full
from ictcli.errors import InterruptedRunError, RunFailedError, UserError, is_disk_full
from ictcli.evaluation import folder as folders
from ictcli.evaluation import provenance
from ictcli.evaluation.evaluate import chunk_of, evaluate
from ictcli.evaluation.record import FORMAT, Evaluation, Result, with_differences
from ictcli.evaluation.report import results_page
from ictcli.evaluation.samples import SampleFile
from ictcli.evaluation.settings import EvaluationSettings
from ictcli.evaluation.specs import BenchmarkSpec, ModelSpec, unlike
from ictcli.files import write_json, write_text
from ictcli.files.origin import Origin
from ictcli.tables.numbers import counted
from ictcli.tasks import prompts
from ictcli.tasks.custom import is_custom
from ictcli.tasks.split import key_of
from ictcli.tasks.unread import unread_notes
from ictcli.text import command_again

Bar = Callable[[str], Callable[[int, int], None]]
"""Maps an evaluation's name to its progress callback, which gets samples so far and in all."""

OF_RESULT = (
    *("source", "sha256", "verifier", "timeout"),
    *("stop", "fingerprint", "engine", "ictcli", "libraries"),
)
"""The keys of settings.json that a result repeats."""


class Engines:
    """The models' engines, one loaded at a time: two may not fit on the device."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._loaded: dict[str, Engine] = {}
        self._say = say

    def of(self, model: ModelSpec, why: str = "") -> Engine:
        if model.name not in self._loaded:
            self._loaded.clear()
            gc.collect()  # frees reference cycles of the last engine
            self._say(f"loading {model.name}{why}")
            self._loaded[model.name] = engine = model.load()
            engine.budget.say = self._say
        return self._loaded[model.name]


def evaluate_suite(
    models: Sequence[ModelSpec],
    benchmarks: Sequence[BenchmarkSpec],
    settings: EvaluationSettings,
    *,
    out: Path | None = None,
    resume: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: Bar = lambda name: lambda done, total: None,
) -> tuple[list[Result], Path]:
    """Evaluate every model on every benchmark. Return the entries of results.json and the folder.

    Every model is loaded and every prompt encoded before the first sample is drawn. Raises
    UserError if a model cannot be evaluated, and InterruptedRunError at Ctrl-C; samples are kept.
    """
    seen = trained_among(models, benchmarks)
    for note in notes(models, benchmarks, settings, seen):
        say(f"note: {note}")
    if out is not None:
        folders.check(out)  # before models are loaded, which takes time
    engines = Engines(say)
    alone = len(models) == 1
    why = "" if alone else " to check its prompts"
    loaded: list[Origin] = []
    for model in reversed(models):  # so that the first model stays loaded
        try:
            benchmarks, checked = _checked(engines.of(model, why), model, benchmarks, settings, say)
            loaded.insert(0, checked)
        except UserError as error:
            if not alone:
                error.message = f"{model.name}: {error.message}"
            raise
    plugins = [*map(Path, settings.plugins), *(path for model in models for path in model.plugins)]
    saved = provenance.provenance_of(settings, loaded, benchmarks, plugins)
    base = models[0].run / "eval" if alone and models[0].run else Path("evals")
    name = "-vs-".join(model.name for model in models)[:80]
    name += "-heldout" if benchmarks[0].chunk else f"-seed{settings.seed}"
    settings = settings.model_copy(update={"plugins": tuple(map(str, dict.fromkeys(plugins)))})

    def warn(message: str) -> None:
        for line in f"warning: {message}".split("\n"):
            say(line)

    results: list[Result] = []
    opened = folders.opened(out, base, name, saved, resume=resume, say=say)
    with opened as folder, _kept(folder):
        for model, spec in product(models, benchmarks):
            path = (folder if alone else folder / model.name) / f"{spec.stem}.jsonl"
            file = SampleFile(path, spec.chunk or chunk_of(settings.n), resume=True)
            engine = engines.of(model)
            bar = progress(spec.name if alone else f"{model.name}, {spec.name}")
            sampling = model.sampling(spec.max_tokens, engine.stop_ids)
            prompt, spec = spec.asked(model.prompt), spec.read_by(model.pattern)
            evaluation = evaluate(
                engine, spec, settings, prompt, sampling, file, bar, say, warn=warn
            )
            count = seen.get((model.name, spec.name))
            result = result_of(evaluation, model, spec, engine, settings, saved, count)
            del engine  # else it stays in memory while the next model loads
            results = with_differences([*results, result])
            records = [result.model_dump(mode="json") for result in results]
            write_json(folder / "results.json", records)
        write_text(folder / "results.md", results_page(results))
    return results, folder


def result_of(
    evaluation: Evaluation,
    model: ModelSpec,
    spec: BenchmarkSpec,
    engine: Engine,
    settings: EvaluationSettings,
    saved: Origin,
    trained_on: int | None,
) -> Result:
    """Return the entry of an evaluation in results.json, without differences. `saved` is the
    content of settings.json."""
    loaded = next(entry for entry in saved["models"] if entry["name"] == model.name)
    bench = next(entry for entry in saved["benchmarks"] if entry["name"] == spec.name)
    domain, template = spec.benchmark.domain, loaded["template"][spec.name]
    prompt = spec.asked(model.prompt)
    default_suffix = "" if template == "own" else domain.suffix
    hidden = domain.private and not settings.show_private
    example = prompts.render(engine.tokenizer, spec.problems[0], domain, prompt)
    merged = {**saved, **loaded, **bench}
    how: dict[str, Any] = {
        **{key: merged[key] for key in OF_RESULT},
        **dict(evaluation.settings),
        "pattern": domain.pattern,
        "template": template,
        "suffix": default_suffix if prompt.suffix is None else prompt.suffix,
        "limit": settings.limit,
        "example_prompt": None if hidden else example,
    }
    entry = {"model": model.model, "name": model.name, "trained_on": trained_on, "settings": how}
    return Result.model_validate(
        {**dict(evaluation), **entry, "format": FORMAT, "notes": spec.benchmark.notes}
    )


def trained_among(
    models: Sequence[ModelSpec], benchmarks: Sequence[BenchmarkSpec]
) -> dict[tuple[str, str], int]:
    """Return the number of a benchmark's problems that a model was trained on, by (model name,
    benchmark name). Pairs for which this is not known are left out."""
    seen: dict[tuple[str, str], int] = {}
    for model in models:
        trained = model.trained_on()
        for spec in benchmarks:
            count = sum(key_of(problem.prompt) in trained.keys for problem in spec.problems)
            if count or trained.whole:
                seen[model.name, spec.name] = count
    return seen


def notes(
    models: Sequence[ModelSpec],
    benchmarks: Sequence[BenchmarkSpec],
    settings: EvaluationSettings,
    seen: Mapping[tuple[str, str], int],
) -> Iterator[str]:
    """Yield notes on what limits the meaning of the scores; `seen` is from `trained_among`."""
    yield from dict.fromkeys(note for spec in benchmarks for note in spec.benchmark.notes)
    if warning := unlike(models):
        yield warning
    if settings.n > 1 and all(model.temperature == 0 for model in models):
        yield f"at temperature 0 the {settings.n} samples of a problem are identical."
    for model, spec in product(models, benchmarks):
        count = seen.get((model.name, spec.name))
        of = f"of the {counted(len(spec.problems), 'problem')} of {spec.name}"
        if count:
            yield (
                f"{model.name} was trained on {count:,} {of}: the score does not show how it "
                "does on new problems."
            )
        elif count == 0:
            yield f"{model.name} was trained on none {of}."
        elif model.known and not model.run and is_custom(spec.name):
            yield f"{model.name} does not record which problems of {spec.name} it was trained on."


def _checked(
    engine: Engine,
    model: ModelSpec,
    benchmarks: Sequence[BenchmarkSpec],
    settings: EvaluationSettings,
    say: Callable[[str], None],
) -> tuple[list[BenchmarkSpec], Origin]:
    """Return the benchmarks and the provenance of a loaded model. Unless the user sets max_tokens,
    answers are limited to the room that the longest prompt leaves in the model's context. UserError
    if a prompt is too long, contains its answer as an example, or cannot be encoded."""
    checked: list[BenchmarkSpec] = []
    for spec in benchmarks:
        prompt = spec.asked(model.prompt)
        example_keys = {key_of(example.prompt) for example in prompt.examples}
        if answered := [p for p in spec.problems if key_of(p.prompt) in example_keys]:
            raise UserError(
                f"The prompt shows the answer of {len(answered)} of the problems of {spec.name} "
                f"as an example: {answered[0].id}.",
                "use other prompt.examples, or none",
            )
        domain, most = spec.benchmark.domain, settings.max_tokens
        ids = prompts.encode(engine, spec.problems, domain, prompt, most or 1)
        longest = max(map(len, ids))
        if most is None and (room := engine.context - longest) < spec.max_tokens:
            say(f"note: max_tokens={room} for {spec.name}, as {model.name}'s context is limited.")
            spec = replace(spec, max_tokens=room)
        for note in unread_notes(engine, spec.problems, domain, prompt):
            say(f"note: {model.name}: {note}")
        checked.append(spec)
    return checked, provenance.of_model(model, engine, checked)


@contextlib.contextmanager
def _kept(folder: Path) -> Generator[None]:
    """Note on an error that stops sampling the command that resumes from the samples so far."""
    again = command_again("--resume", "--out", folder)
    so_far = f"the samples so far are in {folder}."
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(f"Interrupted: {so_far}", f"{again} continues") from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        where = f" ({error.filename})" if error.filename else ""
        message, remedy = f"{error.strerror or error}{where}", "fix this"
        if is_disk_full(error):
            message, remedy = "No space is left on the disk", "free some space"
        raise RunFailedError(f"{message}; {so_far}", f"{remedy}, then {again}") from error
    except (MemoryError, RuntimeError) as error:
        if not is_full(error):
            raise
        raise RunFailedError(
            f"The memory of the device is full; {so_far}",
            "start again with engine.rows=64 or less, which needs less memory, and --out OTHER",
        ) from error
