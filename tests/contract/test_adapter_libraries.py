"""Laws of exported adapters against the libraries whose layouts they have, and of one engine's in
the other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusing import refused

from ictcli.engine.adapters import base_of, in_layout
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings

from .conftest import (
    ENGINES,
    GROUP,
    PROMPTS,
    SAMPLING,
    build,
    made_up,
    make_mlx,
    make_torch,
    reader,
)
from .lowrank import ADAPTERS, CONFIG, DORA, LORA, adapters_of, files_of
from .test_adapters import BOTH
from .training import SMOOTH, apart, logp_of, train


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


@pytest.mark.parametrize(
    ("adapter", "layers", "writer", "other"), [(LORA, 1, "torch", "mlx"), (DORA, 0, "mlx", "torch")]
)
def test_each_engine_reads_the_others_adapters(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings, writer: str, other: str, layers: int
) -> None:
    """Of the last block, and of all."""
    adapter = adapter.model_copy(update={"layers": layers, "targets": ("q_proj", "down_proj")})
    engine, rollouts = build(writer, tiny_model, SMOOTH, adapter), made_up()
    train(engine, rollouts, 2)
    adapters_of(engine, tmp_path)
    found = reader(other, tmp_path).logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, engine.logits(rollouts, rollouts.valid), atol=2e-5, rtol=1e-5)


@BOTH
def test_both_engines_begin_with_the_same_adapters(
    tiny_model: Path, tmp_path: Path, adapter: AdapterSettings
) -> None:
    """From the same seed, to the bit; DoRA's norms to rounding."""
    made = (build(name, tiny_model, SMOOTH, adapter) for name in ENGINES)
    one, other = (adapters_of(engine, tmp_path / str(n)) for n, engine in enumerate(made))
    assert one.keys() == other.keys()
    assert apart(one, other) <= (0 if adapter is LORA else 1e-6)


PEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("Lora", {}),
    "scaled by the root": ("Lora", {"use_rslora": True}),
    "ranks by layer": ("Lora", {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 3}}),
    "head": ("Lora", {"target_modules": ["lm_head", "q_proj"]}),
    "prompt": ("PromptTuning", {}),
}
REFUSED = {"torch": {"prompt"}, "mlx": PEFT.keys() - {"plain", "scaled by the root"}}


def written_by_peft(base: Path, folder: Path, kind: str) -> Any:
    """peft's own model with adapters of random weights, and these in the folder."""
    import peft
    import torch
    from transformers import AutoModelForCausalLM

    name, changed = PEFT[kind]
    given = {"task_type": "CAUSAL_LM"}
    given |= {"r": 4, "target_modules": ["q_proj", "v_proj"]} if name == "Lora" else {}
    given |= {} if name == "Lora" else {"num_virtual_tokens": 3}
    config = getattr(peft, f"{name}Config")(**given | changed)
    model: Any = AutoModelForCausalLM.from_pretrained(base, dtype="float32")
    model = peft.get_peft_model(model, config)
    torch.manual_seed(0)
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data += 0.3 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model.eval()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", PEFT)
def test_adapters_of_peft_are_what_they_are_there_or_refused(
    engine_name: str, untied_model: Path, tmp_path: Path, kind: str
) -> None:
    theirs, rollouts = written_by_peft(untied_model, tmp_path, kind), made_up()
    if kind in REFUSED[engine_name]:
        with refused(str(tmp_path)):
            reader(engine_name, tmp_path)
        return
    found = reader(engine_name, tmp_path).logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, plain_logits(theirs, rollouts), atol=5e-5, rtol=1e-5)


def test_settings_of_a_later_peft_are_refused_in_mlx(tiny_model: Path, tmp_path: Path) -> None:
    written_by_peft(tiny_model, tmp_path, "plain")
    config = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
    (tmp_path / CONFIG).write_text(json.dumps({**config, "newer": 0.5}), encoding="utf-8")
    with pytest.raises(UserError, match="newer"):
        reader("mlx", tmp_path)


@pytest.mark.parametrize(("writer", "other"), [("torch", "mlx"), ("mlx", "peft")])
def test_the_other_layout_names_the_weights_below_too(
    tiny_model: Path, tmp_path: Path, writer: str, other: Any
) -> None:
    engine = build(writer, tiny_model, SMOOTH, DORA)
    adapters_of(engine, tmp_path)
    with in_layout(tmp_path, other, 2) as folder:
        assert base_of(folder) == base_of(tmp_path) != ""


def test_norms_kept_for_sampling_are_those_of_every_pass(tiny_model: Path) -> None:
    """DoRA's, in what cannot be merged without rounding; and nothing is kept after it."""
    engine = make_torch(tiny_model, SMOOTH, DORA, dtype="bfloat16")
    train(engine, made_up(), 2)
    found = engine.generate(PROMPTS, GROUP, SAMPLING, 7)
    np.testing.assert_allclose(found.logp, logp_of(engine, found), atol=0.1)
    for module in engine.model.modules():
        assert not getattr(module, "_dora_cache", None)
        assert "forward" not in vars(module)
