"""Templates for HTML, Markdown and plain text, which escape the values filled in."""

import json
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, cast

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ictcli.tables import markdown, numbers
from ictcli.text import BREAKS, html_text, markdown_block, markdown_code, markdown_text, quoted


def render(template: Path, form: Literal["html", "md", "txt"], **values: Any) -> str:
    """Return a template filled in with `values`, as HTML, Markdown or plain text. In the template,
    functions of `numbers` are filters, other templates of its folder are found by name, and the
    variable `kind` is the suffix of templates of this form."""
    environment = _environment(template.parent, form)
    return environment.get_template(template.name).render(kind=f".{form}.jinja", **values)


def sentence(template: Path, **values: Any) -> str:
    """Return a template filled in with `values`, as plain text on one line."""
    return " ".join(render(template, "txt", **values).split())


@cache
def _environment(folder: Path, form: str) -> Environment:
    escape = {"md": markdown_text, "txt": str}.get(form, partial(html_text, keep=BREAKS))

    def shown(value: Any) -> Any:
        return value if hasattr(value, "__html__") else Markup(escape(value))

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    forms = {name: form for name, form in vars(numbers).items() if callable(form)}
    blocks = {"code": markdown_code, "block": markdown_block, "table": markdown, "quoted": quoted}
    filters = cast(dict[str, Any], environment.filters)  # pyright: ignore[reportUnknownMemberType]
    filters |= forms
    variables = cast(dict[str, Any], environment.globals)  # pyright: ignore[reportUnknownMemberType]
    variables |= forms
    filters |= {name: partial(_marked, form) for name, form in blocks.items()}
    filters |= {"json": partial(json.dumps, allow_nan=False), "line": _line}
    return environment


def _marked(form: Callable[..., str], *values: Any) -> Markup:
    return Markup(form(*values))


def _line(text: str) -> str:
    return type(text)(" ".join(text.split()))
