"""What the shell offers to complete (click's `shell_complete`; no engine is loaded), and ictcli
completion: the script that a shell needs for it."""

import importlib
import os
import shlex
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin

import click
from click import Context, Parameter
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

from ictcli.cli import COMPLETES


class Bash(BashComplete):
    """Bash takes a word apart at `=` and `:`. Its line is read here instead, and the answer leaves
    out what stands before the part that bash completes."""

    source_template = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_PART="${COMP_WORDS[COMP_CWORD]}" \\
        %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        if [[ $type == dir ]]; then
            compopt -o dirnames
        elif [[ $type == file ]]; then
            compopt -o default
        else
            COMPREPLY+=("$value")
            [[ $value == *[=./] ]] && compopt -o nospace
        fi
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        return (words[1:], "") if line.endswith(" ") else (words[1:-1], words[-1])

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        part = os.environ["COMP_PART"].strip("=:")
        before = len(incomplete) - len(part) if incomplete.endswith(part) else 0
        return [
            CompletionItem(shlex.quote(item.value[before:]), type=item.type)
            for item in super().get_completions(args, incomplete)
        ]


class Zsh(ZshComplete):
    """Without a space after `key=`."""

    source_template = ZshComplete.source_template.replace(
        "        compadd -U -V unsorted -a completions\n",
        "        compadd -U -V unsorted -S '' -- ${(M)completions:#*[=./]}\n"
        "        compadd -U -V unsorted -- ${completions:#*[=./]}\n",
    )


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": FishComplete}


def register() -> None:
    """Have click answer the shell with these."""
    for name in ("bash", "zsh"):
        add_completion_class(SHELLS[name], name)


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the script with which SHELL completes commands, recipes, settings, methods and runs.

    Put the first line in ~/.bashrc, or the second in ~/.zshrc below compinit, or type the third
    once.

    \b
    eval "$(ictcli completion bash)"
    eval "$(ictcli completion zsh)"
    ictcli completion fish > ~/.config/fish/completions/ictcli.fish
    """
    from ictcli.console.lines import output

    root: Any = ctx.find_root().command
    script = SHELLS[shell](root, {}, "ictcli", COMPLETES).source()
    output(*script.removesuffix("\n").split("\n"))


Items = list[CompletionItem[str]]
Complete = Callable[[Context, Parameter, str], Items]
RECIPES = "recipe:shipped_recipes"
BENCHMARKS, METHODS = "tasks:BENCHMARKS", "algorithm.methods:METHODS"
VERIFIERS = ("rewards.verifiers:VERIFIERS", "rewards.verifiers:OPTIONAL")
VALUES = {
    **dict.fromkeys(("method", "method.name"), (METHODS,)),
    **dict.fromkeys(("reward", "reward.verifier", "eval.verifier"), VERIFIERS),
    "task": ("tasks:TASKS",),
    "eval.bench": (BENCHMARKS,),
}
"""Where the values of keys are, which have names."""


def _names(*places: str) -> Iterator[str]:
    """The names that these tables hold, and these functions give: `module:name` of ictcli."""
    for place in places:
        module, _, name = place.partition(":")
        found: Any = getattr(importlib.import_module(f"ictcli.{module}"), name)
        yield from cast(Iterable[str], found() if callable(found) else found)


def _of(*places: str, kind: str = "", listed: bool = False) -> Complete:
    """Offers names, and paths of a kind; with `listed` the last of several with commas between."""

    def complete(ctx: Context, param: Parameter, incomplete: str) -> Items:
        before, comma, last = incomplete.rpartition(",") if listed else ("", "", incomplete)
        taken = before.split(",")
        found = _items((name for name in _names(*places) if name not in taken), last, kind)
        return [CompletionItem(f"{before}{comma}{item.value}", type=item.type) for item in found]

    return complete


recipes = _of(RECIPES, kind="file")
downloads = _of(RECIPES, BENCHMARKS, kind="file")
keys = _of("recipe:recipe_keys")
methods = _of(METHODS, listed=True)
benchmarks = _of(BENCHMARKS, kind="file", listed=True)
tasks = _of("tasks:TASKS", BENCHMARKS, kind="file")
engines = _of("cli.options:engine_names")


def settings(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Keys of a recipe, a table at a time; after `=` the values that a key can have."""
    key, equals, value = incomplete.partition("=")
    if equals:
        found = _items(_values(key), value, "file")
        return [CompletionItem(f"{key}={item.value}", type=item.type) for item in found]
    keys = [f"{name}=" for name in (*_names("recipe:recipe_keys"), "method", "reward")]
    typed = len(incomplete)
    ends = (name.find(".", typed) + 1 or len(name) for name in keys)
    return _items((name[:end] for name, end in zip(keys, ends, strict=True)), incomplete)


def runs(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Run folders here, in runs/ and below what was typed; and folders."""
    typed = Path(incomplete)
    inside = typed if incomplete.endswith("/") else typed.parent
    places = (Path("runs"), inside.expanduser())
    found = [recipe.parent for place in places for recipe in place.glob("*/recipe.toml")]
    return _items(sorted(map(str, found)), incomplete, "dir")


RUN: Any = {"type": click.Path(path_type=Path), "shell_complete": runs}
"""Of a click argument that is a run folder, or several."""


def models(ctx: Context, param: Parameter, incomplete: str) -> Items:
    """Models and runs, then settings."""
    if "=" in incomplete:
        return settings(ctx, param, incomplete)
    return [*runs(ctx, param, incomplete), *_items(_values("model"), incomplete)]


def _values(key: str) -> Iterable[str]:
    """Values of a key, where they are few and have names, or are yes and no."""
    if key in VALUES:
        return _names(*VALUES[key])
    if key == "model":
        return (f"builtin:{name}" for name in _names("engine.models:BUILTIN"))
    from ictcli.recipe import Recipe

    kind: Any = Recipe
    for part in key.split("."):
        fields = getattr(kind, "model_fields", {})
        kind = fields[part].annotation if part in fields else None
    if kind is bool:
        return ("true", "false")
    return map(str, get_args(kind)) if get_origin(kind) is Literal else ()


def _items(values: Iterable[str], incomplete: str, kind: str = "") -> Items:
    """The values that begin as typed; before them, for the shell, a kind of path."""
    paths = [CompletionItem(incomplete, type=kind)] if kind else []
    fitting = (value for value in dict.fromkeys(values) if value.startswith(incomplete))
    return [*paths, *(CompletionItem(value) for value in fitting if value.isprintable())]
