"""Limits on how much an engine computes at once, halved whenever memory runs out.

The limits, tokens per pass and rows decoded at once, affect results by rounding alone. Work that
ran out of memory is repeated from its start, so its result is bit-identical to the result of a run
with the lower limits."""

import contextlib
import gc
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import Field
from typing_extensions import TypedDict  # pydantic requires it before Python 3.12

from ictcli.engine import packing
from ictcli.errors import RunFailedError, text_of
from ictcli.recipe.tables import EngineSettings
from ictcli.types import BoolArray, Rollouts

T = TypeVar("T")


class OverLimitError(RunFailedError):
    """More memory was used than the recipe or the device allows."""


Size = Annotated[int, Field(gt=0)]


class BudgetState(TypedDict, total=False):
    """The limits lowered because memory ran out, for a checkpoint; empty if none was lowered."""

    micro_tokens: Size
    rows: Size


class Budget:
    """The limits: `tokens` of a forward and backward pass, and `rows` decoded at once.

    `ran_out` returns whether an error means that the engine is out of memory, as `OverLimitError`
    always does. `free` releases the memory of an interrupted pass."""

    def __init__(
        self,
        settings: EngineSettings,
        ran_out: Callable[[Exception], bool],
        free: Callable[[], None] = lambda: None,
    ) -> None:
        self.tokens, self.rows = settings.micro_tokens, settings.rows
        self.longest = 0
        """Maximum number of tokens in a row of the run, prompt included; 0 if unknown."""
        self.say: Callable[[str], None] = lambda text: None
        """Called with a message when the limits are lowered."""
        self._settings, self._ran_out, self._free = settings, ran_out, free
        self._pass = 0, 0

    def micro_batches(
        self, rollouts: Rollouts, wanted: BoolArray, *, joined: int = 0, share: bool
    ) -> Iterator[packing.MicroBatch]:
        """Yield `ictcli.engine.packing.micro_batches` of at most `tokens` tokens each."""
        batches = packing.micro_batches(rollouts, wanted, self.tokens, joined=joined, share=share)
        for batch in batches:
            self._pass = len(batch.ids), batch.tokens
            yield batch

    def passing(self, work: Callable[[], T]) -> T:
        """Return `work()`, which computes the passes of `micro_batches`. If memory runs out, lower
        the limit to half the tokens of the current pass and call `work` again. Raises
        RunFailedError if that pass has a single row, or memory ran out before the first pass."""

        def begin() -> T:
            self._pass = 0, 0
            return work()

        def halve() -> str:
            rows, tokens = self._pass
            if rows > 1:
                self.lower(max(min(self.tokens, tokens) // 2, 1), self.rows)
            size = f"{rows:,} rows, {tokens:,}" if rows > 1 else f"one row of {tokens:,}"
            return f"in a pass over {size} tokens" if rows else "before the first pass"

        hint = "lower max_tokens"
        if not self._settings.gradient_checkpointing:
            hint += ", or set engine.gradient_checkpointing=true"
        return self._until_it_fits(begin, halve, hint)

    def decoding(self, group: int, total: int, work: Callable[[], T]) -> T:
        """Return `work()`, which samples `total` rows in groups of `group`, at most `rows` at once.
        If memory runs out, halve `rows` and call `work` again. RunFailedError if one group is too
        much."""

        def halve() -> str:
            groups = min(self.rows, total) // group
            if groups > 1:
                self.lower(self.tokens, groups // 2 * group)
            return f"while decoding {max(groups, 1) * group:,} rows at once"

        return self._until_it_fits(work, halve, "lower max_tokens or group")

    def _until_it_fits(self, work: Callable[[], T], halve: Callable[[], str], hint: str) -> T:
        """Call `work` until memory suffices. `halve` lowers the limits and returns where memory ran
        out, as text. If `halve` cannot lower them, raise RunFailedError with `hint`."""
        while True:
            try:
                return work()
            except Exception as error:
                if not (isinstance(error, OverLimitError) or self._ran_out(error)):
                    raise
                reason, limited = text_of(error, 200), isinstance(error, OverLimitError)
            # after the except block, since the error keeps the arrays of the pass alive
            gc.collect()
            self._free()
            before = self.tokens, self.rows
            where = halve()
            if before == (self.tokens, self.rows):
                hint += ", or train adapters (adapter.kind=lora) or a smaller model"
                if limited:
                    hint += ", or raise engine.memory_limit (in the run's recipe.toml, then resume)"
                raise RunFailedError(
                    f"Memory ran out {where}, and ictcli cannot use less memory: {reason}.",
                    f"{hint}; ictcli train RECIPE --dry-run shows the memory of each part",
                )
            self.say(
                f"Memory ran out {where} ({reason}). ictcli repeats the work. It now uses at "
                f"most {self.tokens:,} tokens per pass and {self.rows:,} rows decoded at once."
            )

    def lower(self, tokens: int, rows: int) -> bool:
        """Lower each limit to the given number if that is smaller; return whether one changed."""
        before = self.tokens, self.rows
        self.tokens, self.rows = min(self.tokens, tokens), min(self.rows, rows)
        return before != (self.tokens, self.rows)

    def state(self) -> BudgetState:
        """Return the limits that are lower than in the recipe, for a checkpoint."""
        state = BudgetState()
        if self.tokens < self._settings.micro_tokens:
            state["micro_tokens"] = self.tokens
        if self.rows < self._settings.rows:
            state["rows"] = self.rows
        return state

    def restore(self, state: BudgetState) -> None:
        """Lower the limits to those of a checkpoint."""
        self.lower(state.get("micro_tokens", self.tokens), state.get("rows", self.rows))


FULL = re.compile(
    "out of memory|(Unable|Attempting) to allocate|Insufficient Memory|OutOfMemory|Resource limit|"
    "DefaultCPUAllocator|Cannot allocate memory|"
    "Invalid buffer size|"  # MPS: an array is larger than Metal allows
    "CUBLAS_STATUS_ALLOC_FAILED|CUBLAS_STATUS_NOT_INITIALIZED.*cublasCreate"  # its workspace
)
"""Matches the out-of-memory errors of MLX and PyTorch."""


def is_full(error: Exception) -> bool:
    """Return whether an error of any engine means that memory ran out."""
    if isinstance(error, MemoryError):
        return True
    return isinstance(error, (RuntimeError, ValueError)) and bool(FULL.search(str(error)))


def forget_peak() -> None:
    """Reset `peak_rss` to the current memory use. This works on Linux only."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")


def peak_rss() -> int:
    """Return the peak resident set size of this process in bytes.

    On Linux it is read from /proc, as getrusage includes the peak of the parent process."""
    status = Path("/proc/self/status")
    if status.exists() and (match := re.search(r"VmHWM:\s*(\d+) kB", status.read_text())):
        return int(match[1]) * 1024
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
