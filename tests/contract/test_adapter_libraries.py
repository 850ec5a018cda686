"""Laws of exported adapters against the libraries whose layouts they have, and of one engine's in
the other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ictcli.recipe.tables import AdapterSettings

from .conftest import made_up, make_mlx, make_torch, reader
from .lowrank import ADAPTERS, CONFIG, LORA, adapters_of, files_of
from .test_adapters import BOTH
from .training import SMOOTH, apart, train

MAKERS = {"torch": make_torch, "mlx": make_mlx}


def plain_logits(model: Any, rollouts: Any) -> np.ndarray:
    """(N, V) of every response token, by plain passes of a transformers or peft model."""
    import torch

    found = []
    for row, length in enumerate(rollouts.lengths):
        prompt = rollouts.prompt_of(row)
        ids = torch.tensor([[*prompt, *rollouts.tokens[row, :length].tolist()]])
        with torch.no_grad():
            found.append(model(input_ids=ids).logits[0, len(prompt) - 1 : -1].numpy())
    return np.concatenate(found)


@BOTH
def test_peft_reads_what_is_exported(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    from peft import AutoPeftModelForCausalLM, PeftModel
    from transformers import AutoModelForCausalLM

    engine, rollouts = make_torch(tiny_model, SMOOTH, adapter), made_up()
    train(engine, rollouts, 2)
    adapters_of(engine, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {ADAPTERS["torch"], CONFIG}
    assert files_of(tmp_path)[1]["base_model_name_or_path"] == str(tiny_model)
    wanted = engine.logits(rollouts, rollouts.valid)
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype="float32")
    by_hand, by_name = (
        PeftModel.from_pretrained(base, str(tmp_path)),
        AutoPeftModelForCausalLM.from_pretrained(str(tmp_path), dtype="float32"),
    )
    for model in (by_hand.eval(), by_name.eval()):
        np.testing.assert_allclose(plain_logits(model, rollouts), wanted, atol=1e-5, rtol=1e-5)


@BOTH
def test_mlx_lm_reads_what_is_exported(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    import mlx.core as mx
    from mlx_lm.utils import load

    base, folder, rollouts = tmp_path / "base", tmp_path / "adapter", made_up()
    base.mkdir()
    make_mlx(tiny_model).export(base)  # mlx-lm alone does not see the theta that transformers saved
    engine = make_mlx(base, SMOOTH, adapter)
    train(engine, rollouts, 2)
    adapters_of(engine, folder)
    assert {path.name for path in folder.iterdir()} == {ADAPTERS["mlx"], CONFIG}
    model: Any = load(str(base), adapter_path=str(folder))[0]
    wanted = engine.logits(rollouts, rollouts.valid)
    first = 0
    for row, length in enumerate(rollouts.lengths):
        prompt = rollouts.prompt_of(row)
        ids = [*prompt, *rollouts.tokens[row, :length].tolist()]
        logits = np.array(model(mx.array([ids]))[0, len(prompt) - 1 : -1])
        np.testing.assert_allclose(logits, wanted[first : first + length], atol=1e-5, rtol=1e-5)
        first += length


@BOTH
@pytest.mark.parametrize(("writer", "other"), [("torch", "mlx"), ("mlx", "torch")])
@pytest.mark.parametrize("layers", [0, 1], ids=["all blocks", "last block"])
def test_each_engine_reads_the_others_adapters(
    tiny_model: Path,
    tmp_path: Path,
    adapter: AdapterSettings,
    writer: str,
    other: str,
    layers: int,
) -> None:
    adapter = adapter.model_copy(update={"layers": layers, "targets": ("q_proj", "down_proj")})
    engine, rollouts = MAKERS[writer](tiny_model, SMOOTH, adapter), made_up()
    train(engine, rollouts, 2)
    adapters_of(engine, tmp_path)
    found = reader(other, tmp_path).logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, engine.logits(rollouts, rollouts.valid), atol=2e-5, rtol=1e-5)


@BOTH
def test_both_engines_train_the_same_adapters(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    """From the same seed: the first values to the bit, and three steps to rounding."""
    one, other = (make(tiny_model, SMOOTH, adapter) for make in MAKERS.values())
    first = [adapters_of(e, tmp_path / f"first {n}") for n, e in enumerate((one, other))]
    assert first[0].keys() == first[1].keys()
    assert apart(*first) == 0 if adapter is LORA else apart(*first) < 1e-6
    for engine in (one, other):
        train(engine, made_up(), 3)
    last = [adapters_of(e, tmp_path / f"last {n}") for n, e in enumerate((one, other))]
    assert apart(*last) < 1e-5
    assert apart(last[0], first[0]) > 1e-3
