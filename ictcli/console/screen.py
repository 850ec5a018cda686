"""The terminal as rich draws on it. Text cannot act on it: every sequence is rich's own."""

import sys
from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from ictcli.text import SPACES, visible


class Screen(Console):
    """A console on stdout or stderr, past the filter that `ictcli.cli.main` sets on them."""

    def __init__(self, *, stderr: bool = False, width: int | None = None) -> None:
        stream = sys.stderr if stderr else sys.stdout
        file = getattr(stream, "unfiltered", None)
        super().__init__(stderr=stderr, file=file, width=width)

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            if control:
                yield Segment(text, style, control)
            else:
                plain = style.update_link(None) if style and style.link else style
                yield Segment(visible(text, SPACES + "\n"), plain)
