"""Laws of decoding at fixed shapes, as CUDA graphs need it: it changes nothing but time.

`test_gpu` collects some of them again, and there the steps are graphs.
"""

import json
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from ictcli_torch.decode import FixedDecoder, GrowingDecoder, has_fixed_step
from ictcli_torch.dense import DenseDecoder, is_dense
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM

from ictcli.recipe.tables import AdapterSettings
from ictcli.types import Rollouts
from tests.cases import first

from .conftest import GROUP, PROMPTS, SAMPLING, WANTED, made_up, make_torch
from .lowrank import DORA, LORA
from .models import make_capped, make_kind
from .test_generate import same
from .training import SMOOTH, train

LONG = replace(SAMPLING, max_tokens=60, stop_ids=(7,))


@pytest.fixture(params=[8, 256], ids=["made anew", "made once"])
def room(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Free positions of a cache: rows that ended leave when there are none."""
    monkeypatch.setattr("ictcli_torch.decode.FixedDecoder.ROOM", request.param)
    return request.param


def plain_and(other: type, engine: Any, prompts: Any = PROMPTS) -> tuple[Rollouts, Rollouts]:
    lockstep, found = engine.lockstep, []
    for decoder in (GrowingDecoder, other):
        engine.lockstep = partial(lockstep, decoder=decoder)
        found.append(engine.generate(prompts, GROUP, LONG, 5, WANTED))
    assert found[0].lengths.max() > 50
    assert len(set(found[0].lengths.tolist())) > 4
    return found[0], found[1]


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize(
    ("adapter", "dtype"), first([(LORA, "bfloat16"), (DORA, "float32"), (None, "float32")])
)
def test_fixed_shapes_change_no_token(
    tiny_model: Path, device: str, adapter: AdapterSettings | None, dtype: str
) -> None:
    """Prompts of several lengths, and rows that end early. In float32 the next law holds it too."""
    engine = make_torch(tiny_model, SMOOTH, adapter, device=device, dtype=dtype)
    train(engine, made_up(), 1)
    plain, fixed = plain_and(FixedDecoder, engine)
    same(fixed, plain, atol=2e-5 if dtype == "float32" else 0.05)


class Tape:
    """Stands for a CUDA graph on a CPU: the second call records every operation on tensors, and
    later ones repeat these on the same memory, whatever Python would do now."""

    def __init__(self) -> None:
        self.operations: list[tuple[Any, Any, Any, Any]] = []
        self.calls = 0

    def __call__(self, work: Callable[[], None]) -> None:
        self.calls += 1
        if self.calls == 1:
            work()
        elif self.calls == 2:
            self._record(work)
        else:
            self._repeat()

    def _record(self, work: Callable[[], None]) -> None:
        operations = self.operations

        class Recorder(TorchDispatchMode):
            def __torch_dispatch__(
                self, func: Any, types: Any, args: Any = (), kwargs: Any = None
            ) -> Any:
                result = func(*args, **(kwargs or {}))
                operations.append((func, args, kwargs or {}, result))
                return result

        with Recorder():
            work()

    def _repeat(self) -> None:
        for func, args, kwargs, result in self.operations:
            again = func(*args, **kwargs)
            for old, new in zip(tree_leaves(result), tree_leaves(again), strict=True):
                if hasattr(old, "copy_") and old.data_ptr() != new.data_ptr():
                    old.copy_(new)


@pytest.mark.usefixtures("room")
def test_a_step_is_its_operations_again(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is a number of Python's that changes from step to step."""
    tapes: list[Tape] = []

    def runner(device: Any) -> Tape:
        tapes.append(Tape())
        return tapes[-1]

    monkeypatch.setattr("ictcli_torch.decode.runner", runner)
    engine = make_torch(tiny_model, SMOOTH, DORA)
    plain, fixed = plain_and(FixedDecoder, engine)
    same(fixed, plain)
    assert sum(tape.calls for tape in tapes) == LONG.max_tokens - 1


LINEAR = {"rope_type": "linear", "factor": 2.0}
DENSE: list[tuple[str, AdapterSettings | None, dict[str, Any]]] = [
    ("llama", None, {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}),
    ("mistral", LORA, {"sliding_window": None, "head_dim": 16}),
    ("qwen2", DORA, {"tie_word_embeddings": True}),
    ("qwen3", None, {"head_dim": 8, "rope_parameters": LINEAR}),
]


@pytest.mark.parametrize(("kind", "adapter", "more"), DENSE)
def test_dense_models_decode_to_the_bit(
    tmp_path: Path, kind: str, adapter: AdapterSettings | None, more: dict[str, Any]
) -> None:
    """Padded prompts, the longest of them last alive, and prompts of one length; rows that end."""
    engine = make_torch(make_kind(tmp_path, kind, **more), SMOOTH, adapter)
    train(engine, made_up(), 1)
    assert engine.lockstep.keywords["decoder"] is DenseDecoder
    for prompts in (PROMPTS, (PROMPTS[0], PROMPTS[0][::-1]))[: 1 + (kind == "llama")]:
        plain, dense = plain_and(DenseDecoder, engine, prompts)
        same(dense, plain, atol=0)


def test_only_dense_models_in_float32_decode_as_such(tiny_model: Path, tmp_path: Path) -> None:
    """Windows, multipliers beside the formula of Llama, and 16 bits go to transformers."""
    windowed = make_kind(tmp_path / "window", "mistral", sliding_window=5)
    scaled = make_kind(tmp_path / "scaled", "granite", embedding_multiplier=2.0)
    for folder, dtype in ((windowed, "float32"), (scaled, "float32"), (tiny_model, "bfloat16")):
        engine = make_torch(folder, dtype=dtype)
        assert engine.lockstep.keywords["decoder"].__name__ == "GrowingDecoder"


OWN = """from transformers import LlamaForCausalLM as Llama

class LlamaForCausalLM(Llama):
    def forward(self, *args, **more):
        output = super().forward(*args, **more)
        output.logits = output.logits / 4
        return output
"""


def test_what_a_model_does_beside_its_family_is_done(tmp_path: Path) -> None:
    """A class of its own code under the family's name, a forward put over a block's, and a hook on
    a linear layer."""
    folder = make_kind(tmp_path, "llama")
    (folder / "own.py").write_text(OWN)
    own = {"auto_map": {"AutoModelForCausalLM": "own.LlamaForCausalLM"}}
    config = json.loads((folder / "config.json").read_text())
    plain = make_torch(folder)
    (folder / "config.json").write_text(json.dumps(config | own))
    remote = make_torch(folder, trust_remote_code=True)
    assert remote.lockstep.keywords["decoder"].__name__ == "GrowingDecoder"

    model = plain.model
    assert is_dense(model)
    block, linear = model.model.layers[1], model.model.layers[0].mlp.up_proj
    for part in (model, model.model, block, block.self_attn, block.mlp):
        part.forward = partial(type(part).forward, part)
        assert not is_dense(model)
        del part.forward
        hook = part.register_forward_hook(lambda *_: None)
        assert not is_dense(model)
        hook.remove()
    linear.register_forward_hook(lambda module, given, out: 2 * out)
    model.model.norm.register_forward_pre_hook(lambda module, given: (given[0] + 1,))
    same(*reversed(plain_and(DenseDecoder, plain)), atol=0)


def test_a_decoder_goes_with_its_pass(tiny_model: Path) -> None:
    """A cycle of references would keep its cache, and a graph, until Python collects garbage."""
    engine, made = make_torch(tiny_model), list[weakref.ref[Any]]()

    def decoder(*given: Any) -> Any:
        made.append(weakref.ref(own := FixedDecoder(*given)))
        return own

    engine.lockstep = partial(engine.lockstep, decoder=decoder)
    engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    assert [reference() for reference in made] == [None]


def test_only_models_that_have_fixed_steps_take_them(
    tiny_model: Path, sliding_model: Path, hybrid_model: Path, tmp_path: Path
) -> None:
    """Windows, recurrent layers, experts, frequencies that follow the length, and attention that a
    model writes out do not."""

    def of(config: Any) -> bool:
        with torch.device("meta"):
            return has_fixed_step(AutoModelForCausalLM.from_config(config))

    tiny = AutoConfig.from_pretrained(tiny_model)
    assert of(tiny)
    for other in (sliding_model, hybrid_model, make_capped(tmp_path)):
        assert not of(AutoConfig.from_pretrained(other))
    sizes = {key: getattr(tiny, key) for key in ("hidden_size", "intermediate_size", "vocab_size")}
    assert not of(AutoConfig.for_model("mixtral", num_hidden_layers=1, **sizes))
    assert not of(AutoConfig.for_model("bloom", n_layer=1, hidden_size=32, vocab_size=18))
    scaled = {"rope_theta": 1e4, "factor": 2.0}
    for rope, fixed in (("linear", True), ("dynamic", False)):
        tiny.rope_parameters = scaled | {"rope_type": rope}
        assert of(tiny) == fixed


@pytest.mark.parametrize("chosen", ["auto", "on", "off"])
def test_graphs_are_for_cuda(tiny_model: Path, device: str, chosen: str) -> None:
    engine = make_torch(tiny_model, device=device, compile=chosen)
    assert engine.describe()["compiled"] == (device == "cuda" and chosen != "off")
