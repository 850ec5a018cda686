"""The screen. Only this package imports rich.

Data goes to stdout, narration to stderr. On a terminal a run is a live view, elsewhere a line a
step.
"""
