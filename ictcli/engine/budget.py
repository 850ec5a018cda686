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


class OverLimitError(RunFailedError):
    """More memory was used than the recipe or the device allows."""


Size = Annotated[int, Field(gt=0)]


class BudgetState(TypedDict, total=False):
    """The smaller sizes after memory ran out, for a checkpoint; empty = it never did."""

    micro_tokens: Size
    rows: Size


class Budget:
    """Tokens and rows of a forward and backward pass, and rows decoded side by side.

    `ran_out` tells an engine's own out-of-memory errors from others (`OverLimitError` is one);
    `free` releases the memory of an interrupted pass."""

    def __init__(
        self,
        settings: EngineSettings,
        ran_out: Callable[[Exception], bool],
        free: Callable[[], None] = lambda: None,
    ) -> None:
        self.tokens, self.rows = settings.micro_tokens, settings.rows
        self.longest = 0
        """Tokens of the longest row that the run plans for, its prompt included; 0: not known."""
        self.say: Callable[[str], None] = lambda text: None
        """Called with a line when the budget shrinks."""
        self._settings, self._ran_out, self._free = settings, ran_out, free
        self._pass = 0, 0

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, *, joined: int = 0, share: bool
    ) -> Iterator[packing.MicroBatch]:
        """Yield `ictcli.engine.packing.micro_batches` within the budget."""
        batches = packing.micro_batches(rollouts, wanted, self.tokens, joined=joined, share=share)
        for batch in batches:
            self._pass = len(batch.ids), batch.tokens
            yield batch

    def passing(self, work: Callable[[], T]) -> T:
        """Return what `work` gives, whose passes come from `micro_batches`. Where memory runs out
        it is called again, with half the tokens of the pass that broke. Raises RunFailedError where
        one row is too much, or where no pass had begun."""

        def begin() -> T:
            self._pass = 0, 0
            return work()

        def halve() -> str:
            rows, tokens = self._pass
            if rows > 1:
                self.lower(max(min(self.tokens, tokens) // 2, 1), self.rows)
            size = f"{rows:,} rows, {tokens:,}" if rows > 1 else f"one row of {tokens:,}"
            return f"in a pass over {size} tokens" if rows else "before a pass began"

        way = "lower max_tokens"
        if not self._settings.gradient_checkpointing:
            way += ", or set engine.gradient_checkpointing=true"
        return self._until_it_fits(begin, halve, way)

    def decoding(self, group: int, total: int, work: Callable[[], T]) -> T:
        """Return what `work` gives, which samples `total` rows in groups of `group`, `rows` of them
        side by side; as `passing` does."""

        def halve() -> str:
            groups = min(self.rows, total) // group
            if groups > 1:
                self.lower(self.tokens, groups // 2 * group)
            return f"decoding {max(groups, 1) * group:,} rows side by side"

        return self._until_it_fits(work, halve, "lower max_tokens or group")

    def _until_it_fits(self, work: Callable[[], T], halve: Callable[[], str], way: str) -> T:
        """Call `work` until memory suffices. `halve` shrinks the budget where it can, and returns
        where memory ran out; `way` is what to do where it cannot."""
        while True:
            try:
                return work()
            except Exception as error:
                if not (isinstance(error, OverLimitError) or self._ran_out(error)):
                    raise
                reason, limited = text_of(error, 200), isinstance(error, OverLimitError)
            # after the except: the error's frames held what the pass did
            gc.collect()
            self._free()
            before = self.tokens, self.rows
            where = halve()
            if before == (self.tokens, self.rows):
                way += ", or train adapters (adapter.kind=lora) or a smaller model"
                if limited:
                    way += ", or raise engine.memory_limit (in the run's recipe.toml, then resume)"
                raise RunFailedError(
                    f"Memory ran out {where}, and less cannot be done at once: {reason}.",
                    f"{way}; ictcli train RECIPE --dry-run shows the memory of each part",
                )
            self.say(
                f"Memory ran out {where} ({reason}); it is done again, from now on with "
                f"{self.tokens:,} tokens a pass and {self.rows:,} rows side by side."
            )

    def lower(self, tokens: int, rows: int) -> bool:
        """Shrink to these where they are less, as where memory runs out; return whether so."""
        before = self.tokens, self.rows
        self.tokens, self.rows = min(self.tokens, tokens), min(self.rows, rows)
        return before != (self.tokens, self.rows)

    def state(self) -> BudgetState:
        """Return what is smaller than in the recipe, for a checkpoint."""
        state = BudgetState()
        if self.tokens < self._settings.micro_tokens:
            state["micro_tokens"] = self.tokens
        if self.rows < self._settings.rows:
            state["rows"] = self.rows
        return state

    def restore(self, state: BudgetState) -> None:
        """Begin where `state` ended."""
        self.lower(state.get("micro_tokens", self.tokens), state.get("rows", self.rows))


FULL = re.compile(
    "out of memory|(Unable|Attempting) to allocate|Insufficient Memory|OutOfMemory|Resource limit|"
    "DefaultCPUAllocator|Cannot allocate memory|"
    "Invalid buffer size|"  # MPS, of one array larger than Metal allows
    "CUBLAS_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED.*cublasCreate"  # its workspace
)
"""Words of MLX's and PyTorch's errors on a lack of memory."""


def is_full(error: Exception) -> bool:
    """Return whether an error was raised for want of memory, by any engine."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, (RuntimeError, ValueError)) and bool(FULL.search(str(error)))


def forget_peak() -> None:
    """Have `peak_rss` begin anew, on Linux; elsewhere nothing can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> int:
    """Return the largest resident set so far, in bytes.

    On Linux from /proc, whose mark begins anew with a program; getrusage's is inherited from the
    process that started it.
    """
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(match[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
