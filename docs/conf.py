"""The site: `sphinx-build -W docs build/site`. It needs the extra `docs` and no network."""

import sys
from pathlib import Path

from sphinx.application import Sphinx

from ictcli import __version__

sys.path.insert(0, str(Path(__file__).parent))
import from_code

project = "ictcli"
author = "The ictcli maintainers"
project_copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_copybutton"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

default_role = "code"  # docstrings write `name`
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"

smartquotes = False  # -- begins an option

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_title = f"ictcli {release}"
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}


def fill_in(app: Sphinx, page: str, source: list[str]) -> None:
    """Replace `<!-- from code: NAME -->` in a page with the result of `from_code.NAME()`."""
    source[0] = from_code.fill_in(source[0])


def plain_bars(app: Sphinx, what: str, name: str, item: object, options: object, lines: list[str]):
    """Escape the bars of a docstring's |x|, which reStructuredText would read as a substitution."""
    lines[:] = [line.replace("|", "\\|") for line in lines]


def setup(app: Sphinx) -> None:
    app.connect("source-read", fill_in)
    app.connect("autodoc-process-docstring", plain_bars)
