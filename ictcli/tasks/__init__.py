"""Where problems come from: tasks to train on, each with a held-out part, and benchmarks.

Every choice is a function of (seed, step), so any batch can be made again. Add a task with
`register_task` or a benchmark with `register_benchmark` in a plugin file; docs/extending.md.
"""

from ictcli.tasks import datasets as datasets  # and these theirs
from ictcli.tasks import forks as forks  # chain and ledger register their tasks and benchmarks
from ictcli.tasks.registry import (
    BENCHMARKS,
    TASKS,
    find_benchmark,
    find_task,
    register_benchmark,
    register_task,
)
from ictcli.tasks.task import BOXED, Benchmark, Domain, Task, shuffled_batch, with_train

__all__ = [
    "BENCHMARKS",
    "BOXED",
    "TASKS",
    "Benchmark",
    "Domain",
    "Task",
    "find_benchmark",
    "find_task",
    "register_benchmark",
    "register_task",
    "shuffled_batch",
    "with_train",
]
