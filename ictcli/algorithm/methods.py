"""The methods: each is one short function that says which tokens of a batch are trained.

Importing this module registers them: those that choose tokens are in `choosing`, those that clip
differently in `clipping`. Plugins import from here; examples/methods has more methods.
"""

from collections.abc import Mapping
from typing import Any

from ictcli.algorithm import choosing as choosing
from ictcli.algorithm import clipping as clipping
from ictcli.algorithm.choosing import ShareOptions as ShareOptions
from ictcli.algorithm.registry import METHODS as METHODS
from ictcli.algorithm.registry import Choice as Choice
from ictcli.algorithm.registry import Method as Method
from ictcli.algorithm.registry import Options as Options
from ictcli.algorithm.registry import Rule as Rule
from ictcli.algorithm.registry import Scored as Scored
from ictcli.algorithm.registry import find_method as find_method
from ictcli.algorithm.registry import register as register


def beside(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the method table to compare method `name` with the method of `table`: the defaults of
    `name`, with `keep` and `scope` from `table`, so that both select as many tokens from the same
    sets. An option whose default differs from that in `ShareOptions` keeps its default."""
    if name == table["name"]:
        return dict(table)
    options = [find_method(method).options for method in (name, table["name"])]
    if not all(issubclass(option, ShareOptions) for option in options):
        return {"name": name}
    shared = [
        key
        for key, field in ShareOptions.model_fields.items()
        if key in table and options[0].model_fields[key].default == field.default
    ]
    return {"name": name, **{key: table[key] for key in shared}}
