"""Everything that ictcli prints: data on stdout, narration on stderr. Only this package imports
rich. On a terminal a training run is a live view, elsewhere a line per step.
"""
