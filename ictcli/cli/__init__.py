"""The command line. A command's module is imported when the command is used. It imports other
modules when the command runs, so that `ictcli --help` imports nothing but click.
"""

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any, TextIO, cast

import click

from ictcli import __version__
from ictcli.errors import AGAIN, RESUME, RunFailedError, UserError, is_disk_full, nearest, text_of
from ictcli.ranks import find_launch
from ictcli.text import VisibleStream, one_line, wrapped

COMMANDS = (
    *("train", "check", "resume", "eval", "generate", "grade", "compare", "inspect"),
    *("export", "runs", "recipes", "tasks", "methods", "doctor"),
)
RUN: Any = {"type": click.Path(path_type=Path)}
"""Arguments of `click.argument` for one or several run folders."""
json_option = partial(click.option, "--json", "as_json", is_flag=True)
JSON = json_option(help="Print as JSON.")
CHECKPOINT = click.option(
    "--checkpoint",
    metavar="best|STEP",
    help="Use this checkpoint of the run instead of its last weights. 'best' needs a run that was "
    "trained with checkpoint.best=METRIC.",
)


class LazyGroup(click.Group):
    """A group that imports the command NAME from ictcli.cli.NAME when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            near = nearest(cmd_name, list(COMMANDS), OTHERS)
            raise UserError(f"There is no command {cmd_name!r}{near}.", "see ictcli --help")
        return importlib.import_module(f"ictcli.cli.{cmd_name}").command


OTHERS = {
    **dict.fromkeys(("finetune", "fine-tune", "tune", "fit", "sft", "grpo", "rl"), "train"),
    **dict.fromkeys(("evaluate", "test", "bench", "benchmark"), "eval"),
    **dict.fromkeys(("chat", "ask", "sample", "predict"), "generate"),
    **dict.fromkeys(("merge", "convert", "push", "upload"), "export"),
    **dict.fromkeys(("ls", "list", "show", "status"), "runs"),
}
"""Maps other programs' names of commands to ours."""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ictcli")
def cli() -> None:
    """Train small reasoning models by reinforcement learning with verifiable rewards.

    Start with: ictcli train quickstart
    """
    from ictcli.files import gate

    gate.ask()


STDOUT = "<stdout>"
OF_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.EISDIR)
"""Errors that a mistyped path causes; the exit code is 2, as for any mistyped command."""
NOT_UTF8 = "write it in UTF-8; if your locale uses another encoding, set PYTHONUTF8=1"


class Stdout:
    """Wraps stdout so that its errors have `STDOUT` as file name, like the errors of a file."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with _named():
            return self._stream.write(text)

    def flush(self) -> None:
        with _named():
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def _named() -> Generator[None]:
    try:
        yield
    except OSError as error:
        error.filename = STDOUT
        raise


def main() -> None:
    """Run the command line and exit with its exit code."""
    sys.exit(run())


def run() -> int:
    """Run the command line and return its exit code (see `ictcli.errors`)."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # the shell closed it; in this order descriptors match
            null = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 (never closed)
            setattr(sys, name, null)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # an ASCII terminal shows ? for other characters
    sys.stdout = VisibleStream(cast(TextIO, Stdout(sys.stdout)))
    sys.stderr = VisibleStream(sys.stderr)  # libraries write warnings and logs there too
    try:
        code = _run()
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has ended: no error
            return 0
        reason = error.strerror or str(error)
        code = fail(f"The output cannot be written: {reason}.", "send stdout to another disk", 1)
    return code


def _run() -> int:
    """Run the command, print any error, and return the exit code. OSError if stdout fails."""
    try:
        result = _command()
    except UserError as error:
        return fail(error.message, error.hint, error.exit_code)
    except click.NoSuchOption as error:
        return fail(*_meant(error), 2)
    except click.exceptions.NoArgsIsHelpError as error:  # a group such as `runs` without a command
        error.show()
        return 2
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "ictcli"
        return fail(error.format_message(), f"{command} --help", 2)
    except click.ClickException as error:
        return fail(error.format_message(), "", error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        return fail("Interrupted.", AGAIN, 130)
    except BrokenPipeError:
        raise
    except (MemoryError, RuntimeError) as error:
        from ictcli.engine.budget import is_full

        if not is_full(error):
            raise
        return fail(
            "The memory of the device is full.",
            f"lower engine.rows and engine.micro_tokens, then: {_again(error)}",
            1,
        )
    except OSError as error:
        if error.filename == STDOUT:
            raise
        return fail(*_explain(error), 2 if error.errno in OF_NAMES else 1)
    except UnicodeEncodeError as error:  # a path whose bytes are not UTF-8
        part = error.object[max(0, error.start - 20) : error.end + 20]
        return fail(f"This is not UTF-8: {part!r}.", NOT_UTF8, 2)
    except Exception as error:
        if "KeyboardInterrupt" not in str(error):  # pydantic may wrap a KeyboardInterrupt
            raise
        return fail("Interrupted.", AGAIN, 130)
    return result if isinstance(result, int) else 0


def _command() -> Any:
    """Run the command and return its result. In a launch of several processes it runs on rank 0,
    and the other ranks print only errors."""
    stderr = sys.stderr
    for word in sys.argv[1:]:
        word.encode()  # raises if not UTF-8: some libraries cannot write files of such names
    command = partial(cli.main, prog_name="ictcli", standalone_mode=False)
    try:
        if find_launch() is None:
            return command()
        from ictcli.engine import run_in_ranks
        from ictcli.train.follow import follow

        return run_in_ranks(command, follow)
    except (UserError, click.ClickException, click.Abort):
        raise
    except Exception as error:
        from ictcli.files.plugins import place_of

        if place := place_of(error):
            message = f"The plugin {place} fails: {type(error).__name__}: {text_of(error)}."
            raise RunFailedError(message, f"fix the plugin, then: {_again(error)}") from error
        raise
    finally:
        sys.stderr = stderr


def fail(message: str, hint: str, code: int) -> int:
    """Print an error message, a blank line and the hint on stderr; return the exit `code`."""
    text = wrapped(f"error: {one_line(message)}", sys.stderr) + "\n"
    text += f"\nhint: {one_line(hint)}\n" if hint else ""
    with contextlib.suppress(OSError):  # stderr may be closed
        sys.stderr.write(text)
        sys.stderr.flush()
    return code


def _explain(error: OSError) -> tuple[str, str]:
    place = error.filename2 or error.filename  # the target, if a copy failed
    where = f" ({place})" if place else ""
    if is_disk_full(error):
        return f"No space is left on the disk{where}.", f"free some space, then: {_again(error)}"
    return f"A file cannot be written or read: {error.strerror or error}{where}.", (
        f"check the path and its permissions, or use another path (--run, --out): {_again(error)}"
    )


def _again(error: BaseException) -> str:
    """Return the resume command that a run noted on its error, else "the same command"."""
    notes: list[str] = getattr(error, "__notes__", [])
    return next((note for note in notes if note.startswith(RESUME)), "the same command")


def _meant(error: click.NoSuchOption) -> tuple[str, str]:
    """Return the message and hint for an unknown option; for a key (--lr) the hint is KEY=VALUE."""
    command = error.ctx.command_path if error.ctx else "ictcli"
    params = error.ctx.command.params if error.ctx else []
    name = error.option_name.lstrip("-").replace("-", "_")
    if any("KEY=VALUE" in (param.metavar or "") for param in params):
        from ictcli.evaluation.settings import EvaluationSettings, GenerateSettings
        from ictcli.recipe import Recipe, recipe_keys

        models = {"eval": EvaluationSettings, "generate": GenerateSettings}
        keys = recipe_keys(models.get(command.split()[-1], Recipe))
        fitting = sorted((key for key in keys if f".{key}".endswith(f".{name}")), key=len)
        if fitting:
            settings = " or ".join(f"{key}=VALUE" for key in fitting)
            return (
                f"There is no option {error.option_name}.",
                f"settings have no dashes: {settings}",
            )
    return error.format_message(), f"{command} --help"
