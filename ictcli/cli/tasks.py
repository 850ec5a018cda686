"""ictcli tasks: list the tasks and benchmarks that have names, and show one."""

import click

from ictcli.cli import JSON


@click.group("tasks")
def command() -> None:
    """List the tasks and benchmarks, and show one."""


@command.command("ls")
@JSON
def ls(as_json: bool) -> None:
    """List the built-in tasks, data sets and generators.

    A file, a folder or any data set of the hub can also be used as a task.
    """
    from ictcli.console.lines import narrate
    from ictcli.console.table import print_records
    from ictcli.errors import install
    from ictcli.tasks.gym import is_installed
    from ictcli.tasks.registry import named

    print_records(named(), as_json=as_json)
    if not is_installed():
        narrate(f"{install('gym')} adds the tasks gym:NAME: the generators of reasoning-gym")


@command.command("show")
@click.argument("name")
@click.argument("options", nargs=-1, metavar="[KEY=VALUE]...")
@JSON
def show(name: str, options: tuple[str, ...], as_json: bool) -> None:
    """Show a task's options and its first held-out problem.

    \b
    ictcli tasks show gym:chain_sum
    ictcli tasks show gym:chain_sum min_terms=4 max_terms=4
    """
    from ictcli.console.lines import narrate, output
    from ictcli.console.table import print_json
    from ictcli.recipe.generator import is_gym
    from ictcli.tasks.registry import shown

    if is_gym(name):
        narrate("loading reasoning-gym")
    parts = shown(":".join([name, *(option.removeprefix("task.") for option in options)]))
    if as_json:
        print_json(parts)
        return
    lines = (f"task.{key}={value}" for key, value in parts.pop("options", {}).items())
    for part, text in parts.items():
        output(part, *(f"  {line}" for line in str(text).split("\n")))
    output(*lines)
