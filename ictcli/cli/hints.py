"""What to type instead of an option that is none."""

import shlex

import click


def for_option(error: click.NoSuchOption, args: list[str]) -> tuple[str, str]:
    """The sentence and the hint. Where the command takes KEY=VALUE, and what was typed is the end
    of one of its keys, the hint is the command of `args` as it was meant."""
    command = error.ctx.command_path if error.ctx else "ictcli"
    params = error.ctx.command.params if error.ctx else []
    name = error.option_name.lstrip("-").replace("-", "_")
    keys = _keys(command) if any("KEY=VALUE" in (p.metavar or "") for p in params) else []
    ends = (f".{name}", f".{name}s")
    fitting = [key for key in keys if key == name] or [k for k in keys if f".{k}".endswith(ends)]
    if not fitting:
        return error.format_message(), f"{command} --help"
    place = next(i for i, arg in enumerate(args) if arg.partition("=")[0] == error.option_name)
    _, equals, value = args[place].partition("=")
    rest = args[place + 1 :]
    if not equals and rest and not rest[0].startswith("-"):
        value = rest.pop(0)
    settings = [f"{key}={value or 'VALUE'}" for key in sorted(fitting, key=len)]
    typed = f"settings are {' or '.join(settings)}, without dashes"
    meant = shlex.join(["ictcli", *args[:place], settings[0], *rest])
    return f"There is no option {error.option_name}: {typed}.", meant


def _keys(command: str) -> list[str]:
    from ictcli.evaluation.settings import EvaluationSettings
    from ictcli.generate.settings import GenerateSettings
    from ictcli.recipe import Recipe, recipe_keys

    models = {"eval": EvaluationSettings, "generate": GenerateSettings}
    return [*recipe_keys(models.get(command.split()[-1], Recipe))]
