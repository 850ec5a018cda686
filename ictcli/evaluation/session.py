"""An evaluation from the first check to its results: every model on every benchmark."""

from __future__ import annotations

import contextlib
import errno
import gc
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from ictcli.engine import Engine
from ictcli.errors import InterruptedRunError, RunFailedError, UserError
from ictcli.evaluation import folder as places
from ictcli.evaluation.evaluate import chunk_of, evaluate
from ictcli.evaluation.identity import model_settings, settings_of
from ictcli.evaluation.report import entry, with_differences
from ictcli.evaluation.request import Asked, Contender, Request, unlike
from ictcli.evaluation.tables import markdown
from ictcli.evaluation.trained import trained_on
from ictcli.files import write_json, write_text
from ictcli.tasks import prompts
from ictcli.tasks.split import key_of

Progress = Callable[[int, int], None]
Bar = Callable[[str, int], Progress]
"""What shows the progress of an evaluation of that name and so many problems."""


class Engines:
    """The engines of the models, one at a time: two may not fit on the device."""

    def __init__(self, say: Callable[[str], None] = lambda text: None) -> None:
        self._held: tuple[str, Engine] | None = None
        self._say = say

    def of(self, contender: Contender) -> Engine:
        if self._held is None or self._held[0] != contender.name:
            self._held = None
            gc.collect()  # what the last one held in cycles
            engine = contender.build()
            engine.budget.say = self._say
            self._held = contender.name, engine
        return self._held[1]


def run(
    contenders: Sequence[Contender],
    asked: Sequence[Asked],
    request: Request,
    *,
    plugins: Sequence[Path] = (),
    out: Path | None = None,
    resume: bool = False,
    say: Callable[[str], None] = lambda text: None,
    progress: Bar = lambda name, problems: lambda done, total: None,
) -> tuple[list[dict[str, Any]], Path]:
    """Evaluate and write; gives the entries of results.json and the folder.

    Every model is loaded and every prompt encoded before the first sample is taken. Raises
    UserError for what cannot be evaluated, InterruptedRunError at Ctrl-C: samples are kept.
    """
    for note in dict.fromkeys(note for one in asked for note in one.benchmark.notes):
        say(f"note: {note}")
    if warning := unlike(contenders):
        say(f"note: {warning}")
    if request.n > 1 and all(contender.temperature == 0 for contender in contenders):
        say(f"note: at temperature 0 the {request.n} samples of a problem are one and the same.")
    for contender in contenders:
        pattern = contender.trained.pattern
        if pattern is not None and pattern != request.pattern:
            say(
                f"note: {contender.name} was trained with the answer pattern {pattern!r}; "
                "--pattern reads answers so here too."
            )
    for note in seen(contenders, asked):
        say(f"note: {note}")
    if out is not None:
        places.check(out)  # before models take their time
    engines = Engines(say)
    abouts: list[dict[str, Any]] = []
    for contender in reversed(contenders):  # the first stays loaded
        try:
            abouts.insert(0, _looked_at(engines.of(contender), contender, asked))
        except UserError as error:
            if len(contenders) > 1:
                error.message = f"{contender.name}: {error.message}"
            raise
    loaded = [*plugins, *(path for contender in contenders for path in contender.trained.plugins)]
    settings = settings_of(request, abouts, asked, loaded)
    base = contenders[0].run / "eval" if len(contenders) == 1 and contenders[0].run else None
    name = "-vs-".join(contender.name for contender in contenders)[:80] + f"-seed{request.seed}"
    with places.opened(out, base or Path("evals"), name, settings, resume=resume, say=say) as (
        folder,
        resumed,
    ):
        found: list[dict[str, Any]] = []
        with _kept(folder):
            for contender in contenders:
                for one in asked:
                    label = one.name if len(contenders) == 1 else f"{contender.name}, {one.name}"
                    where = folder if len(contenders) == 1 else folder / contender.name
                    found.append(
                        _evaluated(
                            engines.of(contender),
                            contender,
                            one,
                            request,
                            settings,
                            folder,
                            _place(where / f"{one.stem}.jsonl", resumed=resumed),
                            say,
                            progress(label, len(one.problems)),
                        )
                    )
                    found = with_differences(found, request.ks, request.seed)
                    write_json(folder / "results.json", found)
            write_text(folder / "results.md", markdown(found))
        return found, folder


def seen(contenders: Sequence[Contender], asked: Sequence[Asked]) -> Generator[str]:
    """A sentence for each benchmark with problems that a model's run trains on."""
    for contender in contenders:
        keys = trained_on(contender.run) if contender.run else ()
        for one in asked if keys else ():
            seen = sum(key_of(problem.prompt) in keys for problem in one.problems)
            if seen:
                yield (
                    f"{seen:,} of {len(one.problems):,} problems of {one.name} were trained on by "
                    f"{contender.run}: this does not measure what it does on others."
                )


def _place(samples: Path, *, resumed: bool) -> Path:
    """A file of samples. UserError where it is there and is not this evaluation's."""
    if not resumed and samples.exists():
        raise UserError(
            f"{samples} was put there by another program.", "--out OTHER takes another folder"
        )
    return samples


def _looked_at(engine: Engine, contender: Contender, asked: Sequence[Asked]) -> dict[str, Any]:
    """What a loaded model is; UserError where a prompt does not fit, or shows its own answer."""
    shown = {key_of(example.prompt) for example in contender.prompt.examples}
    for one in asked:
        domain = one.benchmark.domain
        if given := [problem for problem in one.problems if key_of(problem.prompt) in shown]:
            raise UserError(
                f"The prompt shows the answer of {len(given)} of the problems of {one.name} as "
                f"an example: {given[0].id}.",
                "--examples OTHER, or none",
            )
        prompts.encode(engine, one.problems, domain, contender.prompt, one.max_tokens)
    return model_settings(contender, engine, asked)


@contextlib.contextmanager
def _kept(folder: Path) -> Generator[None]:
    """Say how to go on from the samples there are, where something stops their taking."""
    again = f"the same command with --resume --out {folder}"
    try:
        yield
    except KeyboardInterrupt:
        raise InterruptedRunError(
            f"Interrupted: the samples so far are in {folder}.", f"{again} goes on from there"
        ) from None
    except OSError as error:
        if isinstance(error, BrokenPipeError):
            raise
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            where = f" ({error.filename})" if error.filename else ""
            raise RunFailedError(
                f"{error.strerror or error}{where}; the samples so far are in {folder}.",
                f"mend that, then {again}",
            ) from error
        raise RunFailedError(
            f"No space is left on the disk; the samples so far are in {folder}.",
            f"free some, then {again}",
        ) from error
    except (MemoryError, RuntimeError) as error:
        words = ("memory", "allocate", "resource limit")  # torch's and MLX's
        if isinstance(error, RuntimeError) and not any(w in str(error).lower() for w in words):
            raise
        raise RunFailedError(
            f"The memory of the device is full; the samples so far are in {folder}.",
            "--rows 64, or fewer, in another folder takes less of it",
        ) from error


def _evaluated(
    engine: Engine,
    contender: Contender,
    one: Asked,
    request: Request,
    settings: dict[str, Any],
    folder: Path,
    samples: Path,
    say: Callable[[str], None],
    progress: Progress,
) -> dict[str, Any]:
    """One model on one benchmark, from the samples that are there already, if any."""
    found = evaluate(
        engine,
        one.name,
        one.problems,
        one.benchmark.domain,
        contender.sampling(one.max_tokens, engine.stop_ids),
        contender.prompt,
        n=request.n,
        ks=request.ks,
        seed=request.seed,
        samples=samples,
        progress=progress,
        say=say,
        chunk=chunk_of(request.n),
        resume=True,  # see `_place`: those there are, are ours
        shown=request.show_private,
        timed=lambda first, seconds: places.add_timing(
            folder, contender.name, one.name, first, seconds
        ),
        earlier=places.timings(folder, contender.name, one.name),
    )
    return entry(contender, one, engine, found, request, settings)
