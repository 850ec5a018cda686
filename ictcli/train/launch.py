"""Start or resume a run: check it, build the engine, record the environment, handle Ctrl-C."""

import contextlib
import os
import platform
import signal
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import partial
from typing import Any

from ictcli import __version__, errors
from ictcli.engine import Engine, build_engine, versions
from ictcli.engine.dtype import choose_kernels
from ictcli.engine.registry import communicator
from ictcli.files import encodable, gate, write_json
from ictcli.planning.advice import check_memory
from ictcli.planning.estimate import PROMPT_TOKENS
from ictcli.planning.machine import MemoryLimit, device_of, memory_limit
from ictcli.planning.preflight import check_trackers, recipe_notes
from ictcli.ranks import is_restarted
from ictcli.recipe import Recipe, to_toml
from ictcli.runs import FORMAT, Run, manifest, origin, records
from ictcli.runs.checkpoints import stopwatch
from ictcli.runs.observer import Observer
from ictcli.runs.trained import base_notes
from ictcli.tasks import Domain, Task
from ictcli.tasks.prepare import described, examples_of, heldout, task_of, try_functions
from ictcli.tasks.prompts import BATCH, TooLongError, encode
from ictcli.tasks.unread import usable
from ictcli.text import command
from ictcli.tracking import tracked
from ictcli.train.loop import train
from ictcli.types import Problem

TURN = 16
"""Maximum number of tokens that a chat template adds around a message."""


def launch(
    run: Run, recipe: Recipe, observer: Observer, begin: Callable[[], None] = lambda: None
) -> records.Summary:
    """Build the engine, train the run to its end, and return its summary. `begin` is called after
    all checks, before the first step. Rank 0 calls `launch` and sends the recipe to the others."""
    ranks = communicator()
    if ranks.size > 1:
        ranks.broadcast(program_of(run, recipe))
    with finish_step_on_interrupt(observer.noted) as interrupted:
        return train_to_the_end(run, recipe, observer, begin, interrupted, ranks)


def train_to_the_end(
    run: Run,
    recipe: Recipe,
    observer: Observer,
    begin: Callable[[], None],
    interrupted: Callable[[], bool],
    ranks: Any,
) -> records.Summary:
    """Check the run, build the engine and train, on each rank; see `launch` for the arguments."""

    def note(notes: Iterable[str]) -> None:
        for sentence in notes:
            observer.noted(sentence)

    clock = stopwatch()
    with record_failure(run, recipe), ranks.together():
        task = task_of(recipe)  # bad data should fail before a model is loaded
        ranks.share(lambda: try_functions(recipe, task))
        recorded = run.read("environment.json", records.Environment)
        if recorded is None:
            check_trackers(recipe)
        note([*recipe_notes(recipe), *task.notes])
        began = recorded or records.Environment()
        hashed = origin.of_recipe(run.recipe, began)
        examples = examples_of(task)
        origin.check_same(run.folder, began, {"recipe": hashed, **examples})
        manifest.enter(run.folder, "recipe.toml")  # the user may edit `origin.MAY_CHANGE`

        recipe = recipe.with_engine(dtype=began.typed(recipe.engine).dtype)
        if recipe.engine.kernels == "auto":  # one choice for all ranks; older runs used oneDNN
            new = "onednn" if recorded else ranks.share(lambda: choose_kernels("auto"))
            recipe = recipe.with_engine(kernels=began.engine.kernels or new)
        limit = memory_limit(recipe.with_engine(device="cpu").engine)  # before loading the model
        observer.loading(recipe.model)
        parts = recipe.model, recipe.engine, recipe.optimizer, recipe.adapters
        engine = build_engine(*parts, ranks)
        option, adapters = "engine.backend=", recipe.adapters is not None
        if changed := origin.check_engine(
            run.folder, began, engine, adapters=adapters, option=option
        ):
            observer.warned(changed)
        observer.attach(engine)
        noted = len(task.notes)
        task = usable(engine, task, recipe)
        note(task.notes[noted:])
        problems = heldout(recipe, task)
        longest = check_prompts(recipe, engine, task, problems)
        set_budget(recipe, engine, longest, limit, observer.noted)
        note(base_notes(recipe.model, problems))

        data = described(task, problems) | examples
        model = origin.of_model(recipe.model)
        origin.check_same(run.folder, began, {**model, **origin.of_problems(data)})
        if recorded is None:  # a resumed run keeps its first environment.json
            parts = {
                "data": records.DataRecord.model_validate(data, strict=False),
                "model": records.ModelRecord(name=recipe.model, sha256=model.get("model", "")),
                "recipe_sha256": hashed,
            }
            run.write("environment.json", environment(engine, recipe).model_copy(update=parts))
        with tracked(run, recipe, observer.warned) as track:
            stop = partial(ranks.share, interrupted)
            return train(run, recipe, task, engine, observer, stop, track, begin, clock)


def program_of(run: Run, recipe: Recipe) -> dict[str, Any]:
    """Return what the other ranks need to train a run: its small files, the recipe, and which
    plugins and verifiers may be executed."""
    names = ("*.toml", "*.json", "*.jsonl", "eval/*.json*")
    paths = [path for name in names for path in run.folder.glob(name) if path.is_file()]
    files = {str(path.relative_to(run.folder)): path.read_bytes() for path in paths}
    return {"files": files, "recipe": to_toml(recipe), "gate": gate.state()}


def environment(engine: Engine, recipe: Recipe) -> records.Environment:
    """Return the versions and device of this process, without data, model and recipe."""
    return records.Environment(
        format=FORMAT,
        ictcli=__version__,
        python=platform.python_version(),
        platform=platform.platform(),
        libraries=versions(),
        engine=records.EngineRecord.model_validate(engine.describe(), strict=False),
        seed=recipe.seed,
        command=[encodable(word) for word in sys.argv[1:]],
    )


def check_prompts(recipe: Recipe, engine: Engine, task: Task, heldout: Sequence[Problem]) -> int:
    """Return the tokens of the longest training prompt, or PROMPT_TOKENS if the task generates its
    problems. UserError if a prompt, training or held-out, leaves no room for a response."""
    try:
        longest = longest_prompt(recipe, engine, task, task.train, task.domain) or PROMPT_TOKENS
        longest_prompt(recipe, engine, task, heldout, task.exam[1])
    except TooLongError as error:
        if (fits := engine.context - recipe.max_tokens) > TURN:
            error.hint = f"prompt.max_tokens={fits} leaves such problems out; or {error.hint}"
        raise
    return longest


def longest_prompt(
    recipe: Recipe, engine: Engine, task: Task, problems: Sequence[Problem], domain: Domain
) -> int:
    """Return the number of tokens of the longest prompt; 0 without problems. UserError if a prompt
    is too long for the model. Only the `BATCH` prompts with the most bytes, and others that may be
    too long, are tokenized: a token has at least one byte, or half a byte after normalisation."""

    def size(problem: Problem) -> int:
        texts = (text for _, text in problem.turns) if problem.turns else (problem.prompt,)
        return sum(len(text.encode()) + TURN for text in texts)

    longest = 0
    order = sorted(problems, key=size, reverse=True)
    for first in range(0, len(order), BATCH):  # so that not all tokens are in memory at once
        part = order[first : first + BATCH]
        if first and longest + 2 * size(part[0]) + recipe.max_tokens <= engine.context:
            part = [problem for problem in order[first:] if not problem.prompt.strip()]
            encode(engine, part, domain, task.prompt, recipe.max_tokens)
            break
        ids = encode(engine, part, domain, task.prompt, recipe.max_tokens)
        longest = max(longest, *map(len, ids))
    return longest


def set_budget(
    recipe: Recipe, engine: Engine, longest: int, limit: MemoryLimit, say: Callable[[str], None]
) -> None:
    """Tell the engine's memory budget the longest prompt, in tokens, and warn if the estimated
    memory exceeds the available memory; `limit` is the memory available to the CPU."""
    engine.budget.say, engine.budget.longest = say, longest + recipe.max_tokens
    device = str(engine.describe().get("device", recipe.engine.device))
    planned = recipe.with_engine(device=device)
    if device_of(planned.engine) == "cuda":
        limit = memory_limit(planned.engine)
    memory = check_memory(planned, limit, longest)
    if memory.fits is False:
        say(f"Memory estimate: {memory.sentence}")


@contextlib.contextmanager
def finish_step_on_interrupt(say: Callable[[str], None]) -> Generator[Callable[[], bool]]:
    """Yield a function that returns whether Ctrl-C, SIGTERM or SIGHUP was received; the run should
    then end after its step. A second signal raises KeyboardInterrupt."""
    received: list[int] = []

    def receive(number: int, frame: object) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(number)
        text = "Stopping after the current step; Ctrl-C again stops at once."
        with contextlib.suppress(OSError):  # on SIGHUP the terminal may be gone
            try:
                say(text)
            except RuntimeError:  # the signal came while stderr was being written
                os.write(2, f"\n{text}\n".encode())

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    caught = [n for n in numbers if signal.getsignal(n) != signal.SIG_IGN]  # nohup ignores SIGHUP
    before = {number: signal.signal(number, receive) for number in caught}
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


NO_SPACE = "No space is left on the disk"
TRACE = 20_000
"""Number of characters that are kept at the end of a traceback."""


def failure_message(error: Exception) -> str:
    """Return why a run failed, in one line: the message of a UserError, or the type and text of
    another exception. The message for a full disk begins with NO_SPACE."""
    if isinstance(error, errors.UserError):
        return error.message
    if isinstance(error, OSError) and errors.is_disk_full(error):
        return f"{NO_SPACE} ({error.filename})."
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextlib.contextmanager
def record_failure(run: Run, recipe: Recipe) -> Generator[None]:
    """Write an exception raised in the context to failure.json, and add to the exception a note:
    the command that resumes the run. Ctrl-C is not a failure. If torchrun restarts a run that
    stopped itself, by an alarm for example, raise its error again."""
    before = run.read("failure.json", records.Failure) if is_restarted() else None
    if before and before.final:
        raise errors.RunFailedError(
            before.error, f"no process was lost; to continue: {command('resume', run.folder)}"
        )
    (run.folder / "failure.json").unlink(missing_ok=True)
    try:
        yield
    except errors.InterruptedRunError:
        raise
    except KeyboardInterrupt:  # from the second Ctrl-C
        raise errors.InterruptedRunError(
            "Interrupted twice: the current step was not saved.", _resume_command(run, recipe)
        ) from None
    except Exception as error:
        with contextlib.suppress(OSError):
            final = isinstance(error, errors.UserError) and not isinstance(error, errors.LostError)
            message = encodable(failure_message(error))[:1000]
            enough = isinstance(error, errors.UserError) or message.startswith(NO_SPACE)
            trace = "" if enough else encodable("".join(traceback.format_exception(error))[-TRACE:])
            failure = records.Failure(error=message, final=final, traceback=trace)
            if run.folder.is_dir():  # else the user deleted the run
                write_json(run.folder / "failure.json", failure.to_json())
        error.add_note(_resume_command(run, recipe))
        raise


def _resume_command(run: Run, recipe: Recipe) -> str:
    """Return the command that resumes a run, with steps=N if `recipe` extends it."""
    longer = [f"steps={recipe.steps}"] * (run.recipe.get("steps") != recipe.steps)
    return command("resume", run.folder, *longer)
