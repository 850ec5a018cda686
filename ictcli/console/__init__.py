"""The screen. Only this package imports rich.

Data goes to stdout, narration to stderr. On a terminal a run is a live view, elsewhere a line a
step.
"""

from ictcli.console.live import observer as observer
from ictcli.console.plain import narrate as narrate
from ictcli.console.plain import output as output
from ictcli.console.plain import warn_altered as warn_altered
from ictcli.console.results import eval_progress as eval_progress
from ictcli.console.results import evaluations as evaluations
from ictcli.console.results import report as report
from ictcli.console.table import print_records as print_records
