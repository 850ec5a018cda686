"""The options that methods share when they are compared."""

from collections.abc import Mapping
from typing import Any

from ictcli.algorithm.methods import ShareOptions, find_method


def beside(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The method table to compare method `name` with the method of `table`: the defaults of
    `name`, but `keep` and `scope` as in `table`, so that a control selects as many tokens from the
    same sets. A method whose default differs from `ShareOptions` keeps its default."""
    if name == table["name"]:
        return dict(table)
    options = [find_method(method).options for method in (name, table["name"])]
    if not all(issubclass(each, ShareOptions) for each in options):
        return {"name": name}
    shared = [
        key
        for key, field in ShareOptions.model_fields.items()
        if key in table and options[0].model_fields[key].default == field.default
    ]
    return {"name": name, **{key: table[key] for key in shared}}
