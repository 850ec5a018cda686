"""Started by `processes`: holds torch loaded, and forks itself for every command it is told to run.

Each command is a process of its own, with its own exit code and signals, at the price of a fork:
starting Python and importing torch takes seconds. One request at a time, JSON on stdin: `args`,
`folder` to run in, files for `in`, `out` and `err`, and `environment`, which is added to the
server's own; null takes a variable away. A request with a `model` begins another server, which
holds that loaded and has `in` and `out` for its requests and answers.
"""

import contextlib
import gc
import importlib
import json
import os
import sys
import traceback
from typing import Any

from ictcli.cli import COMMANDS

LOADED = (
    *("torch", "torch._dynamo", "torch.distributed.tensor", "pandas", "scipy.stats", "sympy"),
    *("ictcli.console", "ictcli.train", "ictcli.compare", "ictcli.inspect"),
    *(f"ictcli.cli.{name}" for name in COMMANDS),
)
"""What commands need, and transformers of its own accord."""


def warm_up() -> None:
    """Import what any command may need. One thread, since threads do not survive a fork.

    None of it reads variables of the hub or looks for engines: a command's environment decides.
    """
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()  # no collection of a fork goes through the libraries' objects


def hold(request: dict[str, str]) -> None:
    """Turn this fork into a server whose commands find the engine's libraries loaded as well."""
    from ictcli.engine import build_engine
    from ictcli.recipe.tables import EngineSettings

    os.dup2(os.open(request["in"], os.O_RDONLY), 0)
    os.dup2(os.open(request["out"], os.O_WRONLY), 1)
    build_engine(request["model"], EngineSettings(threads=1))
    gc.collect()
    gc.freeze()
    print("ready", flush=True)


def become(request: dict[str, Any]) -> None:
    """Turn this fork into the command."""
    for path, descriptor in ((request["in"], 0), (request["out"], 1), (request["err"], 2)):
        mode = os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        os.dup2(os.open(path, mode, 0o644), descriptor)
    # streams of the server know the kind of its own files: a command opens its own, as Python does
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # noqa: SIM115
    os.chdir(request["folder"])
    for name, value in request["environment"].items():
        os.environ.pop(name, None) if value is None else os.environ.update({name: value})
    sys.path[:0] = filter(None, [request["environment"].get("PYTHONPATH")])
    sys.argv = ["ictcli", *request["args"]]


def run(request: dict[str, Any]) -> None:
    """The command, ended as the interpreter would end it."""
    code = 1
    try:
        become(request)
        from ictcli.cli import main

        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "model" in request:
            if os.fork() == 0:
                hold(request)
            continue
        pid = os.fork()
        if pid == 0:
            run(request)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    with contextlib.suppress(ChildProcessError):
        os.wait()  # for the server that it began


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # pyright: ignore[reportAttributeAccessIssue]
    warm_up()
    print("ready", flush=True)
    serve()
