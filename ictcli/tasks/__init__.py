"""Problems: tasks to train on, each with held-out problems, and benchmarks.

Every draw depends only on (seed, step), so any batch can be drawn again. To add a task or a
benchmark, call `register_task` or `register_benchmark` in a plugin file; see docs/extending.md.
"""

# importing these registers their tasks and benchmarks
from ictcli.tasks import datasets as datasets
from ictcli.tasks.chain.problem import chain_task as chain_task
from ictcli.tasks.ledger.problem import ledger_task as ledger_task
from ictcli.tasks.registry import BENCHMARKS as BENCHMARKS
from ictcli.tasks.registry import TASKS as TASKS
from ictcli.tasks.registry import builtin_task as builtin_task
from ictcli.tasks.registry import find_benchmark as find_benchmark
from ictcli.tasks.registry import find_task as find_task
from ictcli.tasks.registry import register_benchmark as register_benchmark
from ictcli.tasks.registry import register_task as register_task
from ictcli.tasks.task import BOXED as BOXED
from ictcli.tasks.task import Benchmark as Benchmark
from ictcli.tasks.task import Domain as Domain
from ictcli.tasks.task import Task as Task
from ictcli.tasks.task import shuffled_batch as shuffled_batch
