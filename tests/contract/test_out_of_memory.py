"""An engine that runs out of memory takes on less at once, and ends as if it had begun so."""

import contextlib
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ictcli_torch.device import ran_out
from refusing import refused

from ictcli import cli
from ictcli.engine.budget import Budget
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import EngineSettings

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, Make, made_up, make_torch
from .test_generate import same
from .training import logp_of, state, train


def real_error(name: str) -> Exception:
    """What the engine's library itself raises where there is no memory; MLX does so on Metal, and
    on a CPU crashes."""
    if name == "mlx":
        return RuntimeError(
            "[metal::malloc] Attempting to allocate 48736917632 bytes which is greater than the "
            "maximum allowed buffer size of 30150672384 bytes."
        )
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 46)
    return caught.value


@contextlib.contextmanager
def breaking(where: str, error: Exception, at: set[int]) -> Iterator[None]:
    """Within, the calls numbered `at` of a function of a backend raise `error`."""
    module, _, name = where.rpartition(".")
    call, number = getattr(import_module(module), name), count(1)

    def counted(*args: Any, **given: Any) -> Any:
        if next(number) in at:
            raise error
        return call(*args, **given)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(where, counted)
        yield


def test_an_update_that_ran_out_is_that_of_less_budget(make_engine: Make, engine_name: str) -> None:
    error, told, at = real_error(engine_name), list[str](), {1, 3}
    engine: Any = make_engine(micro_tokens=160)
    train(engine, made_up(), 1)
    engine.budget.say = told.append
    with breaking(f"ictcli_{engine_name}.passes.head_logits", error, at):
        report = train(engine, made_up(1), 1, 1)[0]
    assert len(told) == len(at)
    assert all("Memory ran out" in line and "\n" not in line for line in told)
    tokens = engine.budget.tokens
    assert tokens <= 160 / 2 ** len(at)

    other: Any = make_engine(micro_tokens=160)
    train(other, made_up(), 1)
    other.budget.restore(engine.budget.state())  # as a resumed run does
    assert other.budget.tokens == tokens
    again = train(other, made_up(1), 1, 1)[0]
    assert (again.loss, again.grad_norm) == (report.loss, report.grad_norm)
    np.testing.assert_array_equal(again.logp, report.logp)
    assert state(engine) == state(other)


def test_a_gradient_that_was_not_handed_over_is_dropped(tiny_model: Path) -> None:
    """In bfloat16 a micro-batch's gradient is copied for its master, and that may not fit."""
    with breaking("ictcli_torch.optimizer._hand_over", real_error("torch"), {9}):
        engine = make_torch(tiny_model, dtype="bfloat16", micro_tokens=160)
    report = train(engine, made_up(), 1)[0]
    assert engine.budget.tokens < 160
    other = make_torch(tiny_model, dtype="bfloat16", micro_tokens=160)
    other.budget.restore(engine.budget.state())
    assert train(other, made_up(), 1)[0].grad_norm == report.grad_norm


def test_rows_side_by_side_are_halved_and_no_more_changes(
    make_engine: Make, engine_name: str
) -> None:
    error, told = real_error(engine_name), list[str]()
    engine: Any = make_engine()
    engine.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED)
    engine.budget.say = told.append
    with breaking(f"ictcli_{engine_name}.sample.draw", error, {4, 9}):
        found = engine.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED)
    assert engine.budget.rows == GROUP
    assert len(told) == 2
    plain: Any = make_engine(rows=GROUP)
    same(found, plain.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED), atol=0)


def test_one_row_too_much_ends_the_run_unchanged(make_engine: Make, engine_name: str) -> None:
    engine: Any = make_engine()
    rollouts, error = made_up(), real_error(engine_name)
    before = state(engine)
    with breaking(f"ictcli_{engine_name}.passes.head_logits", error, set(range(99))):
        for call in (
            lambda: train(engine, rollouts, 1),
            lambda: logp_of(engine, rollouts),
            lambda: engine.logits(rollouts, rollouts.valid),
        ):
            with refused("one row", hint="max_tokens", kind=RunFailedError):
                call()
    assert state(engine) == before


def test_other_errors_are_not_taken_for_it(make_engine: Make, engine_name: str) -> None:
    engine: Any = make_engine()
    with (
        breaking(f"ictcli_{engine_name}.passes.head_logits", RuntimeError("shapes differ"), {1}),
        pytest.raises(RuntimeError, match="shapes differ"),
    ):
        logp_of(engine, made_up())
    assert engine.budget.state() == {}


def test_no_room_before_a_pass_ends_the_run() -> None:
    """No smaller pass would help."""
    calls = list[int]()

    def work() -> None:
        calls.append(1)
        raise MemoryError("no room")

    budget = Budget(EngineSettings(), lambda error: isinstance(error, MemoryError))
    with refused("before the first pass", ": no room", kind=RunFailedError):
        budget.passing(work)
    assert len(calls) == 1
    assert budget.state() == {}


FULL = (
    "CUDA error: out of memory\nCUDA kernel errors might be asynchronous",
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "Invalid buffer size: 58.24 GiB",
)
OTHER = (
    "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasGemmEx(...)`",
    "CUDA error: device-side assert triggered",
    "operation not permitted when stream is capturing",
)


def test_what_pytorch_says_where_memory_is_full_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its sources word it, or on the way out of such an error: a CUDA graph whose capture ran
    out ends in another. The command line has a sentence for it, no traceback."""
    late = RuntimeError("operation failed due to a previous error during capture")
    late.__context__ = real_error("torch")
    raised: list[Exception] = []

    def broken(*_: object, **__: object) -> None:
        raise raised[-1]

    monkeypatch.setattr(cli.cli, "main", broken)
    assert ran_out(late)
    for error in map(RuntimeError, (*FULL, *OTHER)):
        raised.append(error)
        full = str(error) in FULL
        assert ran_out(error) == full
        with contextlib.nullcontext() if full else pytest.raises(RuntimeError):
            assert cli._run() == 1
