"""The screen. Only this package imports rich.

Data goes to stdout, narration to stderr. On a terminal a run is a live view, elsewhere a line a
step.
"""

from ictcli.console.live import observer
from ictcli.console.plain import narrate, output, warn_altered
from ictcli.console.results import EvalProgress, evaluations, report
from ictcli.console.table import print_records

__all__ = [
    "EvalProgress",
    "evaluations",
    "narrate",
    "observer",
    "output",
    "print_records",
    "report",
    "warn_altered",
]
