"""The share of tokens that two methods have in common, where they are asked side by side."""

from collections.abc import Mapping
from typing import Any

from ictcli.algorithm.methods import ShareOptions, find_method


def beside(own: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The method table of `name` beside a recipe whose method table is `own`: its own defaults,
    but `keep` and `scope` as they are set in `own`, so that a control chooses as many tokens among
    the same ones. A method with another default share of its own, as entropy20's 20 %, keeps it."""
    if name == own["name"]:
        return dict(own)
    options = find_method(name).options
    both = issubclass(options, ShareOptions) and issubclass(
        find_method(own["name"]).options, ShareOptions
    )
    fields = options.model_fields if both else {}
    shared = [
        key
        for key, field in ShareOptions.model_fields.items()
        if key in own and key in fields and fields[key].default == field.default
    ]
    return {"name": name, **{key: own[key] for key in shared}}
