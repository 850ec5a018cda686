"""An engine that runs out of memory takes on less at once, and ends as if it had begun so."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli import cli
from ictcli.engine.budget import Budget
from ictcli.errors import RunFailedError
from ictcli.recipe.tables import EngineSettings
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, MakeEngine, made_up, make_torch, require
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
    import torch

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


@pytest.mark.parametrize("at", first([{1, 3}, {1}, {1, 2}]), ids=str)
def test_an_update_that_ran_out_is_that_of_a_smaller_budget(
    make_engine: MakeEngine,
    engine_name: str,
    tiny_model: Path,
    tmp_path: Path,
    at: set[int],
) -> None:
    error, told = real_error(engine_name), list[str]()
    engine: Any = make_engine(tiny_model, micro_tokens=160)
    train(engine, made_up(), 1)
    engine.budget.say = told.append
    with breaking(f"ictcli_{engine_name}.update.head_logits", error, at):
        report = train(engine, made_up(1), 1, 1)[0]
    assert len(told) == len(at)
    assert all("Memory ran out" in line and "\n" not in line for line in told)
    tokens = engine.budget.tokens
    assert tokens <= 160 / 2 ** len(at)

    other: Any = make_engine(tiny_model, micro_tokens=160)
    train(other, made_up(), 1)
    other.budget.restore(engine.budget.state())  # as a resumed run does
    assert other.budget.tokens == tokens
    again = train(other, made_up(1), 1, 1)[0]
    assert (again.loss, again.grad_norm) == (report.loss, report.grad_norm)
    np.testing.assert_array_equal(again.logp, report.logp)
    assert state(engine, tmp_path / "a") == state(other, tmp_path / "b")

    whole: Any = make_engine(tiny_model, micro_tokens=160)  # and nearly that of the larger one
    train(whole, made_up(), 1)
    assert train(whole, made_up(1), 1, 1)[0].loss == pytest.approx(report.loss, rel=1e-4, abs=1e-6)


def test_an_error_on_the_way_out_of_full_memory_is_one_of_memory() -> None:
    """A CUDA graph whose capture ran out ends in another error than that."""
    require("torch")
    from ictcli_torch.device import ran_out

    with pytest.raises(RuntimeError) as caught:
        try:
            raise real_error("torch")
        finally:
            raise RuntimeError("operation failed due to a previous error during capture")
    assert ran_out(caught.value)
    assert not ran_out(RuntimeError("operation not permitted when stream is capturing"))


@pytest.mark.parametrize("at", first([9, 3]))
def test_a_gradient_that_was_not_handed_over_is_dropped(tiny_model: Path, at: int) -> None:
    """In bfloat16 a micro-batch's gradient is copied for its master, and that may not fit."""
    with breaking("ictcli_torch.optimizer._hand_over", real_error("torch"), {at}):
        engine = make_torch(tiny_model, dtype="bfloat16", micro_tokens=160)
    report = train(engine, made_up(), 1)[0]
    assert engine.budget.tokens < 160
    other = make_torch(tiny_model, dtype="bfloat16", micro_tokens=160)
    other.budget.restore(engine.budget.state())
    assert train(other, made_up(), 1)[0].grad_norm == report.grad_norm


def test_rows_side_by_side_are_halved_and_nothing_else_changes(
    make_engine: MakeEngine,
    engine_name: str,
    tiny_model: Path,
) -> None:
    error, told = real_error(engine_name), list[str]()
    engine: Any = make_engine(tiny_model)
    engine.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED)
    engine.budget.say = told.append
    with breaking(f"ictcli_{engine_name}.sample.draw", error, {4, 9}):
        found = engine.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED)
    assert engine.budget.rows == GROUP
    assert len(told) == 2
    plain: Any = make_engine(tiny_model, rows=GROUP)
    same(found, plain.generate(PROMPTS, GROUP, SAMPLING, 5, WANTED), atol=0)


def test_one_row_too_much_ends_the_run_and_changes_nothing(
    make_engine: MakeEngine,
    engine_name: str,
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    engine: Any = make_engine(tiny_model)
    rollouts, error = made_up(), real_error(engine_name)
    before = state(engine, tmp_path / "before")
    with breaking(f"ictcli_{engine_name}.update.head_logits", error, set(range(99))):
        for call in (
            lambda: train(engine, rollouts, 1),
            lambda: logp_of(engine, rollouts),
            lambda: engine.logits(rollouts, rollouts.valid),
        ):
            with pytest.raises(RunFailedError) as caught:
                call()
            assert "one row" in caught.value.message
            assert "max_tokens" in caught.value.hint
    assert state(engine, tmp_path / "after") == before


def test_other_errors_are_not_taken_for_it(
    make_engine: MakeEngine, engine_name: str, tiny_model: Path
) -> None:
    engine: Any = make_engine(tiny_model)
    with (
        breaking(f"ictcli_{engine_name}.update.head_logits", RuntimeError("shapes differ"), {1}),
        pytest.raises(RuntimeError, match="shapes differ"),
    ):
        logp_of(engine, made_up())
    assert engine.budget.state() == {}


def test_a_changed_recipe_begins_with_its_own_budget(
    make_engine: MakeEngine, tiny_model: Path
) -> None:
    engine: Any = make_engine(tiny_model, micro_tokens=64)
    engine.budget.restore({"micro_tokens": 8, "of": [2048, None, 512]})
    assert engine.budget.tokens == 64


def test_rows_of_a_pass_are_bounded(make_engine: MakeEngine, tiny_model: Path) -> None:
    engine: Any = make_engine(tiny_model, micro_batch=3)
    rollouts = made_up()
    passes = list(engine.budget.micro_batches(rollouts, rollouts.valid, share=True))
    assert max(len(batch.ids) for batch in passes) == 3
    report, expected = (train(one, rollouts, 1)[0] for one in (engine, make_engine(tiny_model)))
    assert report.grad_norm == pytest.approx(expected.grad_norm, rel=1e-4)


UNDER_A_LIMIT = """
import re, resource, sys
import numpy as np
from pathlib import Path
from ictcli.engine import build_engine
from ictcli.engine.update import Update
from ictcli.recipe.tables import EngineSettings, OptimizerSettings
from tests.contract.test_mlx_memory import long_rollouts
from tests.contract.training import LR, PLAIN, sparse_weights, state

folder, out = Path(sys.argv[1]), Path(sys.argv[2])
def make():
    settings = EngineSettings(backend="torch", device="cpu", dtype="float32", threads=1)
    return build_engine(str(folder), settings, OptimizerSettings())

rollouts = long_rollouts(240, rows=32)
weights, A = sparse_weights(rollouts), np.linspace(-1, 1, 32)
engine, other, told = make(), make(), []
few = long_rollouts(8)
for one in (engine, other):  # so that all libraries and moments are there
    one.update(Update(few, few.valid * 1e-2, np.ones(4), PLAIN), LR)
engine.budget.say, engine.budget.tokens = told.append, 8192
used = int(re.search(r"VmSize:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (used + (150 << 20), hard))
update = Update(rollouts, weights, A, PLAIN)
report = engine.update(update, LR)
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
other.budget.restore(engine.budget.state())
assert other.update(update, LR).grad_norm == report.grad_norm
assert state(engine, out / "a") == state(other, out / "b")
print(len(told), engine.budget.tokens, report.stepped)
"""


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_AS and /proc are Linux's")
def test_a_process_that_may_have_no_more_memory_goes_on(deep_model: Path, tmp_path: Path) -> None:
    require("torch")
    command = [sys.executable, "-c", UNDER_A_LIMIT, str(deep_model), str(tmp_path)]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    assert ended.returncode == 0, ended.stderr
    told, tokens, stepped = ended.stdout.split()
    assert int(told) >= 1
    assert int(tokens) < 8192
    assert stepped == "True"


def test_no_room_before_a_pass_ends_the_run() -> None:
    """No smaller pass would help."""
    calls = list[int]()

    def work() -> None:
        calls.append(1)
        raise MemoryError("no room")

    budget = Budget(EngineSettings(), lambda error: isinstance(error, MemoryError))
    with pytest.raises(RunFailedError, match="before a pass began: no room"):
        budget.passing(work)
    assert len(calls) == 1
    assert budget.state() == {}


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("CUDA error: out of memory\nCUDA kernel errors might be asynchronous", True),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", True),
        ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", True),
        ("Invalid buffer size: 58.24 GiB", True),
        ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasGemmEx(...)`", False),
        ("CUDA error: device-side assert triggered", False),
    ],
)
def test_what_pytorch_says_where_memory_is_full(
    monkeypatch: pytest.MonkeyPatch, text: str, *, full: bool
) -> None:
    """As its sources word it; the command line then has a sentence for it, no traceback."""
    require("torch")
    from ictcli_torch.device import ran_out

    assert ran_out(RuntimeError(text)) == full

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError(text)

    monkeypatch.setattr(cli.cli, "main", broken)
    if full:
        assert cli._run() == 1
    else:
        with pytest.raises(RuntimeError):
            cli._run()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux forgets a peak")
def test_the_peak_is_this_engine_s() -> None:
    """Not that of a larger one before it in the process."""
    require("torch")
    import torch
    from ictcli_torch.device import Memory

    before = Memory(torch.device("cpu"))
    held = np.ones(96 << 20, dtype=np.uint8)
    large = before.peak()
    del held
    memory = Memory(torch.device("cpu"))
    small = memory.peak()
    held = np.ones(48 << 20, dtype=np.uint8)
    assert small < large - (64 << 20)
    assert 32 << 20 < memory.peak() - small < 64 << 20
    del held
