"""What the fixture `make` gives."""

from collections.abc import Callable

from ictcli.engine import Engine
from ictcli.recipe import Recipe
from ictcli.tasks import Task

Make = Callable[..., tuple[Recipe, Engine, Task]]
