"""The methods: each is one short function that says which tokens of a batch are trained.

Importing this fills the table: `choosing` has those that choose, `weighing` those that also say how
much. Plugins import from here.
"""

from ictcli.algorithm import choosing, weighing
from ictcli.algorithm.choosing import ShareOptions
from ictcli.algorithm.registry import (
    METHODS,
    Choice,
    Method,
    Options,
    Rule,
    Scored,
    find_method,
    register,
)

__all__ = [
    "METHODS",
    "Choice",
    "Method",
    "Options",
    "Rule",
    "Scored",
    "ShareOptions",
    "choosing",
    "find_method",
    "register",
    "weighing",
]
