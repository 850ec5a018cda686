"""The pictures of docs/images: real commands in a real terminal, pages in a real browser.

    python bench/screenshots.py [--run RUN] [--report runs/compare-RECIPE/report.html]

It needs tmux, chromium and a monospace font with block elements (DejaVu Sans Mono). Terminal
pictures are of `ictcli train quickstart` while it runs and of `ictcli inspect`; pages are inspect's
and the report.html of a comparison, wide, narrow and dark. About two minutes.
"""

import argparse
import io
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Span, Text

ROOT = Path(__file__).parent.parent
IMAGES = ROOT / "docs" / "images"
COLUMNS, LINES = 68, 34
CELL, LINE = 8.43, 17  # pixels of a character at 14 px
COLOURS = 64
TERMINAL = """<!doctype html><meta charset="utf-8"><style>
body {{ margin: 0; background: {background}; color: {foreground} }}
pre {{ margin: 16px; font: 14px/17px "DejaVu Sans Mono", monospace }}
{stylesheet}</style><pre>{code}</pre>"""
FRAME = """<!doctype html><meta name="color-scheme" content="light dark">
<body style="margin: 0">
<iframe src="{page}" style="border: 0; width: {width}px; height: {height}px"></iframe>"""
PAGES = {"wide": (1000, 760, False), "narrow": (400, 800, False), "dark": (1000, 760, True)}


def terminal(
    folder: Path,
    command: str,
    picture: Path,
    ready: Callable[[str], bool],
    done: Callable[[str], bool] | None = None,
) -> None:
    """Type a command in a new terminal; picture the screen once it is ready; wait until done."""
    tmux = ["tmux", "-L", f"ictcli-{picture.stem}"]
    size = ["-x", str(COLUMNS), "-y", str(LINES)]
    shell = f"COLORTERM=truecolor {sys.executable} -m {command}; sleep 600"
    subprocess.run([*tmux, "new-session", "-d", *size, "-c", str(folder), shell], check=True)
    try:
        while not ready(screen := capture(tmux)):
            time.sleep(1)
        draw(screen, picture)
        while done and not done(capture(tmux)):
            time.sleep(1)
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)


def capture(tmux: list[str]) -> str:
    """What the terminal shows, with its colours."""
    shown = subprocess.run([*tmux, "capture-pane", "-e", "-p"], capture_output=True, text=True)
    return shown.stdout.rstrip()


def draw(screen: str, picture: Path) -> None:
    """A terminal's screen as a picture."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO())
    text = Text.from_ansi(screen)
    text.spans = [Span(span.start, span.end, unreversed(span.style)) for span in text.spans]
    console.print(text, soft_wrap=True)
    html = console.export_html(theme=MONOKAI, code_format=TERMINAL)
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as page:
        page.write(html)
        page.flush()
        height = LINE * len(screen.splitlines()) + 32
        browse(Path(page.name), picture, round(CELL * COLUMNS) + 32, height)


def unreversed(style: str | Style) -> str | Style:
    """A style whose colours are named where it reverses the default ones: HTML has no reverse."""
    if isinstance(style, Style) and style.reverse and (not style.color or style.color.is_default):
        return Style(color="rgb(12,12,12)", bgcolor="rgb(217,217,217)")
    return style


def pictures_of_page(page: Path, name: str) -> None:
    """A page in a wide window, on a phone and in the dark."""
    for kind, (width, height, dark) in PAGES.items():
        with tempfile.NamedTemporaryFile("w", suffix=".html") as frame:
            frame.write(FRAME.format(page=page.as_uri(), width=width, height=height))
            frame.flush()
            browse(Path(frame.name), IMAGES / f"{name}-{kind}.png", width, height, dark=dark)


def browse(page: Path, picture: Path, width: int, height: int, *, dark: bool = False) -> None:
    """Open a page in chromium and keep what it shows, in few colours."""
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    window = [f"--window-size={max(width, 500)},{height}", f"--screenshot={picture}"]
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *scheme]
    command = ["chromium", *flags, *window, page.as_uri()]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = Image.open(picture).convert("RGB").crop((0, 0, width, height))
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(picture, optimize=True)
    print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size / 1e3:.0f} kB")


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description="Make the pictures of docs/images.")
    parser.add_argument("--run", type=Path, help="a run of ict to inspect; none is trained")
    parser.add_argument("--report", type=Path, help="the report.html of a comparison")
    options = parser.parse_args()
    given = options.run
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        run = f"runs/{given.name if given else 'quickstart-ict-s0'}"
        if given:
            (folder / "runs").mkdir()
            (folder / run).symlink_to(given.resolve())
        else:
            stages = (
                lambda screen: re.search(r"step 3\d/", screen) is not None,
                lambda screen: "after: " in screen,
            )
            terminal(folder, "ictcli train quickstart", IMAGES / "train.png", *stages)
        inspect = f"ictcli inspect {run} --method ict,entropy20,random"
        terminal(folder, inspect, IMAGES / "inspect.png", lambda screen: "prompt" in screen)
        command = [sys.executable, "-m", *inspect.split(), "--html", "page.html"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        pictures_of_page(folder / "page.html", "inspect")
        if options.report:
            pictures_of_page(options.report, "report")


if __name__ == "__main__":
    main()
