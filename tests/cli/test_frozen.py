"""The options of every command and the keys of every recipe, as frozen.txt lists them.

Scripts and recipes of users depend on these: one that goes, or has another name, must be meant.
`python tests/cli/test_frozen.py > tests/cli/frozen.txt` writes the list anew.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from ictcli.algorithm.methods import METHODS
from ictcli.cli import cli
from ictcli.evaluation.settings import EvaluationSettings, GenerateSettings
from ictcli.recipe import Recipe, recipe_keys

FROZEN = Path(__file__).with_name("frozen.txt")


def options(command: click.Command, path: str) -> Iterator[str]:
    """A line for each command, its arguments and its options."""
    names = [name for param in command.params for name in param.opts if name.startswith("-")]
    places = [
        param.make_metavar(click.Context(command))
        for param in command.params
        if isinstance(param, click.Argument)
    ]
    yield " ".join([path, *places, *sorted(names)])
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from options(found, f"{path} {name}")


def keys() -> Iterator[str]:
    """A line for each key that a recipe, an evaluation or a prompt takes, but those of plugins."""
    own = {n: m for n, m in METHODS.items() if m.rule.__module__.startswith("ictcli.")}
    options = {name: [*method.options.model_fields] for name, method in own.items()}
    of_methods = {"name", *(key for names in options.values() for key in names)}
    for kind, model in (
        ("recipe", Recipe),
        ("eval", EvaluationSettings),
        ("generate", GenerateSettings),
    ):
        names = (key.removeprefix("method.") for key in recipe_keys(model) if "method." in key)
        foreign = {f"method.{name}" for name in names if name not in of_methods}
        yield from sorted(f"{kind}: {key}" for key in {*recipe_keys(model)} - foreign)
    for name, names in options.items():
        yield from sorted(f"method {name}: {key}" for key in names)


def lines() -> list[str]:
    return [*options(cli, "ictcli"), *keys()]


def test_options_and_keys_are_those_that_are_frozen() -> None:
    assert lines() == FROZEN.read_text(encoding="utf-8").splitlines()


if __name__ == "__main__":
    print(*lines(), sep="\n")
