"""ictcli completion: what a shell needs to complete commands, recipes, settings and runs."""

import os
import shlex
from typing import Any

import click
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
    from ictcli.console import output

    root: Any = ctx.find_root().command
    script = SHELLS[shell](root, {}, "ictcli", COMPLETES).source()
    output(*script.removesuffix("\n").split("\n"))
