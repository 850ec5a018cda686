"""Names of reasoning-gym tasks, which contain the generator's options: `gym:NAME:key=value:...`.

A task, `--bench` and `eval.bench` use the same names. A recipe may also set the options as keys:
`task=gym:chain_sum task.max_terms=3`, or a table `[task]` with a `name`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from ictcli.errors import UserError
from ictcli.recipe.keys import toml_value

GYM = "gym:"
_OPTION = re.compile(r":(?=\w+=)")


def is_gym(name: str) -> bool:
    """Return whether a task or benchmark comes from reasoning-gym."""
    return name.startswith(GYM)


def parted(name: str) -> tuple[str, dict[str, Any]]:
    """Split `gym:NAME:key=value:...` into NAME and options. UserError if an option is repeated."""
    generator, *options = _OPTION.split(name.removeprefix(GYM))
    values: dict[str, Any] = {}
    for key, _, value in (option.partition("=") for option in options):
        if key in values:
            raise UserError(f"{name} has the option {key!r} twice.", "leave one out")
        values[key] = toml_value(value)
    return generator, values


def joined(generator: str, options: Mapping[str, Any]) -> str:
    """Return `gym:NAME:key=value:...`, the options sorted by name."""
    texts = (f":{key}={_text(options[key])}" for key in sorted(options))
    return f"{GYM}{generator}{''.join(texts)}"


def task_name(task: object) -> object:
    """Return the name of a recipe's task, which may be a table with a name and options. The options
    of a `gym:` task are sorted into its name. UserError if another task has options."""
    table = dict(cast(dict[str, Any], task)) if isinstance(task, dict) else {"name": task}
    name = table.pop("name", None)
    if not isinstance(name, str) or not is_gym(name):
        if not table:
            return name
        key = next(iter(table))
        raise UserError(
            f"The task {name} has no option {key!r}: it takes no options."
            if isinstance(name, str)
            else f"[task] needs a name, as it has the option {key!r}.",
            "only gym:NAME tasks have options; ictcli tasks ls lists the names",
        )
    generator, options = parted(name)
    return joined(generator, {**options, **table})


def _text(value: object) -> str:
    bare = isinstance(value, str) and toml_value(value) == value and not _OPTION.search(value)
    return str(value) if bare else json.dumps(value).replace(":", "\\u003a")
