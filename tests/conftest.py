"""Fixtures every test may use: tiny models of this project's own making, and no network."""

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadFileScheduling

from ictcli.files import gate

if TYPE_CHECKING:
    from ictcli.engine import Engine

# no deadline: a busy machine is slow, not wrong
settings.register_profile("quick", deadline=None, max_examples=10)
settings.register_profile("thorough", deadline=None, max_examples=300)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
if "MLX_COMPILE" not in os.environ:  # g++ takes a second a kernel; test_mlx has some
    os.environ["MLX_DISABLE_COMPILE"] = "1"
_STATE = tempfile.TemporaryDirectory(prefix="ictcli-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name  # code that ran, `files.gate`

for number in (signal.SIGINT, signal.SIGHUP):  # tests in the background may begin without them
    if signal.getsignal(number) is signal.SIG_IGN:
        default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
        signal.signal(number, default)


gc.disable()  # until all tests are collected: what they import stays


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_not_gone_through() -> None:
    """Each torch engine begins with a collection: 0.3 s over all that was imported."""
    gc.enable()
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _every_test_is_a_process_of_its_own_at_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_now", gate.State())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out the tests that repeat a law in another case (`thorough`), but in that profile. What
    one worker takes whole comes first."""
    if PROFILE != "thorough":
        items[:] = [item for item in items if not item.get_closest_marker("thorough")]
    items.sort(key=lambda item: not item.nodeid.startswith(FORKING))


FORKING = ("tests/cli/", "tests/contract/test_distributed.py", "tests/contract/test_vllm.py")
"""Tests of real processes. One worker has all of them, since the process that they fork takes long
to start (`processes.forks`)."""


class Scheduling(LoadFileScheduling):
    """A file for a worker at a time, or all of `FORKING`."""

    def _split_scope(self, nodeid: str) -> str:
        return "forking" if nodeid.startswith(FORKING) else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)


def make_qwen2(folder: Path, *, tied: bool, seed: int = 0) -> Path:
    """A random Qwen2 with grouped-query attention and the chain tokenizer, in Hugging Face layout.

    Its weights are large enough that distributions differ much from prefix to prefix.
    """
    import torch
    from chain_texts import EOS_ID, PAD_ID, make_tokenizer
    from transformers import Qwen2Config, Qwen2ForCausalLM

    tokenizer = make_tokenizer()
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=tied,
        initializer_range=0.3,
        pad_token_id=PAD_ID,
        eos_token_id=EOS_ID,
        bos_token_id=None,
    )
    torch.manual_seed(seed)
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = EOS_ID
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tied embeddings, like Qwen2.5's small models."""
    return make_qwen2(tmp_path_factory.mktemp("models") / "tied", tied=True)


@pytest.fixture(scope="session")
def untied_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_qwen2(tmp_path_factory.mktemp("models") / "untied", tied=False, seed=1)


@pytest.fixture(scope="session")
def engine(tiny_model: Path) -> "Engine":
    """An engine that samples, and never trains."""
    from ictcli.engine import build_engine
    from ictcli.recipe.tables import EngineSettings, OptimizerSettings

    return build_engine(str(tiny_model), EngineSettings(threads=1), OptimizerSettings())


@pytest.fixture(scope="module")
def even() -> Iterator[None]:
    """A verifier that half of all responses satisfy, so that groups have a signal."""
    from ictcli.rewards import VERIFIERS, Verdict, register_verifier

    register_verifier("even")(lambda r, gold: Verdict("wrong" if len(r) % 2 else "correct"))
    yield
    del VERIFIERS["even"]
