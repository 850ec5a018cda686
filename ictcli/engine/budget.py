"""How much an engine takes on at once, and less of it whenever memory runs out.

Tokens of a pass and rows side by side change memory, and results by rounding alone. What broke is
done again from its beginning, so it ends, to the bit, as if it had begun with the smaller budget.
"""

import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from ictcli.engine import packing
from ictcli.errors import RunFailedError, text_of
from ictcli.recipe.tables import EngineSettings
from ictcli.types import BoolArray, Rollouts

T = TypeVar("T")

LEAST = "which is as little as can be done at once"


class OverLimitError(RunFailedError):
    """More memory was taken than the recipe or the device allows."""


Size = Annotated[int, Field(gt=0)]


class BudgetState(TypedDict, total=False):
    """The smaller sizes after memory ran out, for a checkpoint; empty = it never did."""

    micro_tokens: Size
    rows: Size
    of: list[Size | str | None]
    """The sizes of the recipe."""


class Budget:
    """Tokens and rows of a forward and backward pass, and rows decoded side by side.

    `ran_out` tells an engine's own out-of-memory errors from others (`OverLimitError` is one);
    `free` gives back what a broken pass held.
    """

    def __init__(
        self,
        settings: EngineSettings,
        ran_out: Callable[[Exception], bool],
        free: Callable[[], None] = lambda: None,
    ) -> None:
        rows = settings.micro_batch
        self.pass_rows = rows if isinstance(rows, int) else 0
        """Rows of a pass at most; 0: as many as `tokens` allow."""
        self.tokens = settings.micro_tokens
        self.rows = settings.rows
        self.longest = 0
        """Tokens of the longest row that the run plans for, its prompt included; 0: not known."""
        self.say: Callable[[str], None] = lambda text: None
        """Called with a line when the budget shrinks."""
        self._settings = settings
        self._ran_out, self._free = ran_out, free
        self._pass, self._joined = (0, 0), self.tokens
        self._limited = False
        self._shrunk = BudgetState()

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, *, joined: int = 0, share: bool
    ) -> Iterator[packing.MicroBatch]:
        """`ictcli.engine.packing.micro_batches` within the budget."""
        self._joined = min(self.tokens, joined or self.tokens)
        limits = self.tokens, self.pass_rows
        batches = packing.micro_batches(rollouts, wanted, *limits, joined=joined, share=share)
        for batch in batches:
            self._pass = len(batch.ids), batch.tokens
            yield batch

    def passing(self, work: Callable[[], T]) -> T:
        """What `work` gives, whose passes come from `micro_batches`. Where memory runs out it is
        called again, with half the tokens of the pass that broke for each; it has to begin anew.
        Raises RunFailedError where one row is too much, or where no pass had begun."""

        def halve(reason: str) -> None:
            rows, tokens = self._pass
            if not rows:
                raise self._exhausted("before a pass began", reason, passing=True)
            smallest = self.pass_rows == 1 or self._joined <= tokens
            if rows < 2 and smallest:
                where = f"in a pass over one row of {tokens:,} tokens, {LEAST}"
                raise self._exhausted(where, reason, passing=True)
            most = min(self.tokens, tokens) if rows > 1 else self._joined
            self.tokens = self._shrunk["micro_tokens"] = max(most // 2, 1)
            self.say(
                f"Memory ran out in a pass over {rows:,} rows, {tokens:,} tokens ({reason}); "
                f"it is done again, with {self.tokens:,} tokens a pass from now on."
            )

        def begin() -> T:
            self._pass = (0, 0)
            return work()

        return self._until_it_fits(begin, halve)

    def decoding(self, group: int, total: int, work: Callable[[], T]) -> T:
        """The same of sampling `total` rows in groups of `group`, `rows` of them side by side."""

        def halve(reason: str) -> None:
            groups = min(self.rows, total) // group
            if groups < 2:
                where = f"decoding {group} rows side by side, {LEAST}"
                raise self._exhausted(where, reason, passing=False)
            self.rows = self._shrunk["rows"] = groups // 2 * group
            self.say(
                f"Memory ran out decoding {groups * group:,} rows side by side ({reason}); they "
                f"are sampled again, {self.rows:,} at a time from now on."
            )

        return self._until_it_fits(work, halve)

    def _until_it_fits(self, work: Callable[[], T], halve: Callable[[str], None]) -> T:
        while True:
            try:
                return work()
            except Exception as error:
                if not (isinstance(error, OverLimitError) or self._ran_out(error)):
                    raise
                reason = text_of(error, 200)
                self._limited = isinstance(error, OverLimitError)
            # after the except: the error's frames held what the pass did
            gc.collect()
            self._free()
            halve(reason)

    def _exhausted(self, where: str, reason: str, *, passing: bool) -> RunFailedError:
        ways = ["lower max_tokens" if passing else "lower max_tokens or group"]
        if passing and not self._settings.gradient_checkpointing:
            ways.append("set engine.gradient_checkpointing=true")
        ways.append("train adapters (adapter.kind=lora) or a smaller model")
        if self._limited:
            ways.append("raise engine.memory_limit (of a run in its recipe.toml, then resume)")
        return RunFailedError(
            f"Memory ran out {where}: {reason}.",
            f"{', or '.join(ways)}; ictcli train RECIPE --dry-run shows what takes how much",
        )

    def lower(self, tokens: int, rows: int) -> bool:
        """Shrink to these where they are less, as if memory had run out here; says whether so."""
        before = self.tokens, self.rows
        if tokens < self.tokens:
            self.tokens = self._shrunk["micro_tokens"] = tokens
        if rows < self.rows:
            self.rows = self._shrunk["rows"] = rows
        return before != (self.tokens, self.rows)

    def state(self) -> BudgetState:
        """What shrank, for a checkpoint; empty where nothing did."""
        if self._shrunk:
            self._shrunk["of"] = self._configured()
        return self._shrunk.copy()

    def restore(self, state: BudgetState) -> None:
        """Begin where `state` ended, unless the recipe's sizes were changed since."""
        if state.get("of") == self._configured():
            self._shrunk = state.copy()
            self.tokens = state.get("micro_tokens", self.tokens)
            self.rows = state.get("rows", self.rows)

    def _configured(self) -> list[int | str | None]:
        return [self._settings.micro_tokens, self._settings.micro_batch, self._settings.rows]


FULL = (
    ("DefaultCPUAllocator",),
    ("Cannot allocate memory",),
    ("MPS backend out of memory",),
    ("Invalid buffer size",),  # MPS, of one array larger than Metal allows
    ("CUDA out of memory",),
    ("CUDA error: out of memory",),  # what CUDA itself, or another library, asked for
    ("CUBLAS_STATUS_ALLOC_FAILED",),
    ("CUBLAS_STATUS_NOT_INITIALIZED", "cublasCreate"),  # its workspace found no room
)
"""Texts of which PyTorch's errors hold all of one line where memory is what they want."""


def says_full(text: str) -> bool:
    """Whether an error of PyTorch's with this text was raised for want of memory."""
    return any(all(part in text for part in parts) for parts in FULL)


def is_full(error: Exception) -> bool:
    """Whether an error was raised for want of memory, by any engine."""
    text = str(error)
    words = ("memory", "allocate", "resource limit")  # torch's and MLX's
    told = any(word in text.lower() for word in words) or says_full(text)
    return isinstance(error, MemoryError) or told


def forget_peak() -> None:
    """Have `peak_rss` begin anew, on Linux; elsewhere nothing can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> int:
    """The largest resident set so far, in bytes.

    On Linux from /proc, whose mark begins anew with a program; getrusage's is inherited from the
    process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(match[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
