"""Start or continue a run: engine, environment record, Ctrl-C, training."""

from __future__ import annotations

import contextlib
import errno
import platform
import signal
import sys
from collections.abc import Callable, Generator
from typing import Any

from ictcli import __version__
from ictcli.engine import Engine, build_engine, versions
from ictcli.errors import InterruptedRunError, UserError
from ictcli.files import encodable, write_json
from ictcli.planning.advice import check_memory
from ictcli.planning.estimate import PROMPT_TOKENS, choose_micro_tokens, with_engine
from ictcli.planning.machine import MemoryLimit, device_of, memory_limit
from ictcli.recipe import Recipe
from ictcli.runs import FORMAT, Run
from ictcli.runs.provenance import check_engine, check_model, check_recipe, identity_of, recipe_hash
from ictcli.tasks.prepare import check_unchanged, described, heldout, prepare
from ictcli.tasks.prompts import encode, fitted
from ictcli.tracking.observer import tracked
from ictcli.train.loop import Watcher, train


def environment(engine: Engine, recipe: Recipe) -> dict[str, Any]:
    """What environment.json holds."""
    return {
        "format": FORMAT,
        "ictcli": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "libraries": versions(),
        "engine": engine.describe(),
        "seed": recipe.seed,
        "command": sys.argv[1:],
    }


def warn_if_tight(
    recipe: Recipe, limit: MemoryLimit, say: Callable[[str], None], prompt: int = PROMPT_TOKENS
) -> None:
    """Warn where the memory estimate exceeds the limit: a process that the system ends for its
    memory cannot say so itself."""
    memory = check_memory(recipe, limit, prompt)
    if memory.fits is False:
        say(f"The plan of memory: {memory.sentence}")


@contextlib.contextmanager
def finish_step_on_interrupt(say: Callable[[str], None]) -> Generator[Callable[[], bool]]:
    """Within, Ctrl-C (SIGTERM, SIGHUP) asks the run to end after its step, a second one now."""
    asked: list[int] = []

    def ask(number: int, frame: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(number)
        with contextlib.suppress(OSError):  # the terminal may be gone: that may be why
            say("Finishing the step in flight; Ctrl-C again stops at once.")

    numbers = [getattr(signal, n) for n in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, n)]
    heard = [n for n in numbers if signal.getsignal(n) != signal.SIG_IGN]  # nohup stays nohup
    before = {number: signal.signal(number, ask) for number in heard}
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


NO_SPACE = "No space is left on the disk"


def failure_message(error: Exception) -> str:
    """Why a run failed, in one line: the message of a UserError, or the type and text of another
    exception. A full disk begins with NO_SPACE."""
    if isinstance(error, UserError):
        return error.message
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{NO_SPACE} ({error.filename})."
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


@contextlib.contextmanager
def record_failure(run: Run) -> Generator[None]:
    """Write the exception that ends the run within to failure.json; Ctrl-C is none."""
    path = run.folder / "failure.json"
    path.unlink(missing_ok=True)
    try:
        yield
    except InterruptedRunError:
        raise
    except Exception as error:
        with contextlib.suppress(OSError):
            write_json(path, {"error": encodable(failure_message(error))[:1000]})
        raise


def launch(
    run: Run, recipe: Recipe, watch: Watcher, attach: Callable[[Engine], None] = lambda engine: None
) -> dict[str, Any]:
    """Build the engine and train the run to its end; gives its summary.

    `attach` is given the engine before the first step (the live view decodes tokens with it).
    """
    with finish_step_on_interrupt(watch.warned) as interrupted, record_failure(run):
        recipe, task = prepare(recipe)  # before a model is loaded
        for note in task.notes:
            watch.warned(note)
        recorded = run.read("environment.json")
        began = recorded or {}
        hashed = recipe_hash(run.folder)
        check_recipe(run.folder, began.get("recipe_sha256", hashed), hashed, "the run began")
        limit = memory_limit(with_engine(recipe, device="cpu").engine)  # before loading the model
        engine = build_engine(recipe.model, recipe.engine, recipe.optimizer, recipe.adapters)
        device = str(engine.describe().get("device", recipe.engine.device))
        planned = with_engine(recipe, device=device)
        if device_of(planned.engine) == "cuda":
            limit = memory_limit(planned.engine)
        option, adapters = "engine.backend=", recipe.adapters is not None
        if note := check_engine(run.folder, began, engine, adapters=adapters, option=option):
            watch.warned(note)
        attach(engine)
        told = len(task.notes)
        task = fitted(engine, task, recipe.prompt, recipe.eval.skip + recipe.eval.problems)
        for note in task.notes[told:]:
            watch.warned(note)
        engine.budget.say = watch.warned
        # or refuse now
        ids = encode(engine, task.finite, task.domain, recipe.prompt, recipe.max_tokens)
        longest = max(map(len, ids), default=PROMPT_TOKENS)
        recorded_tokens = began.get("micro_tokens")
        chosen = choose_micro_tokens(planned, recorded_tokens, watch.warned, limit, longest)
        engine.budget.tokens = chosen.get("micro_tokens", engine.budget.tokens)
        warn_if_tight(planned, limit, watch.warned, longest)
        model = identity_of(recipe.model, recipe.engine)
        data = described(recipe, task, heldout(recipe, task))
        if recorded is None:  # a resumed run keeps the first one's
            known = {"name": recipe.model, "sha256": model}
            about = {**chosen, "data": data, "model": known, "recipe_sha256": hashed}
            run.write("environment.json", {**environment(engine, recipe), **about})
        else:
            check_unchanged(began.get("data", {}), data, str(run.folder))
        check_model(run.folder, began, model)
        with tracked(run, recipe, watch) as telling:
            return train(run, recipe, task, engine, telling, interrupted)
