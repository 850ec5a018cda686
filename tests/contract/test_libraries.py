"""Laws of one engine against the other, and of exported adapters against the libraries that read
them. `oracle` and `dense` hold that each engine computes the model and its step."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from refusing import refused
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from ictcli.engine.models import BUILTIN
from ictcli.tasks import find_task
from ictcli.types import Sampling
from tests.cases import first

from .conftest import ENGINES, build, made_up, make_mlx, make_torch, reader
from .lowrank import ADAPTERS, CONFIG, LORA, adapters_of, exported_adapters, files_of
from .oracle import Oracle
from .training import SMOOTH, apart, exported, logp_of, train


def plain_logits(logits_of: Callable[[list[list[int]]], np.ndarray], rollouts: Any) -> np.ndarray:
    """(N, V) of every response token, by plain passes of a row each."""
    found = []
    for row, length in enumerate(rollouts.lengths):
        prompt = rollouts.prompt_of(row)
        logits = logits_of([[*prompt, *rollouts.tokens[row, :length].tolist()]])
        found.append(logits[0, len(prompt) - 1 : -1])
    return np.concatenate(found)


def by_torch(model: Any) -> Callable[[list[list[int]]], np.ndarray]:
    """The logits of a transformers or peft model."""
    return lambda ids: model.eval()(input_ids=torch.tensor(ids)).logits.detach().numpy()


def test_peft_reads_exports(tiny_model: Path, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM, PeftModel

    engine, rollouts = make_torch(tiny_model, SMOOTH, LORA), made_up()
    train(engine, rollouts, 2)
    exported_adapters(engine, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {ADAPTERS["torch"], CONFIG}
    assert files_of(tmp_path)[1]["base_model_name_or_path"] == str(tiny_model)
    wanted = engine.logits(rollouts, rollouts.valid)
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype="float32")
    by_hand = PeftModel.from_pretrained(base, str(tmp_path))
    by_name = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path), dtype="float32")
    for model in (by_hand, by_name):
        found = plain_logits(by_torch(model), rollouts)
        np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-5)


def test_mlx_lm_reads_exports(tiny_model: Path, tmp_path: Path) -> None:
    import mlx.core as mx
    from mlx_lm.utils import load

    # mlx-lm alone does not see the theta that transformers saved
    base, rollouts = exported(make_mlx(tiny_model), tmp_path / "base"), made_up()
    engine = make_mlx(base, SMOOTH, LORA)
    train(engine, rollouts, 2)
    folder = exported_adapters(engine, tmp_path / "adapter")
    assert {path.name for path in folder.iterdir()} == {ADAPTERS["mlx"], CONFIG}
    model: Any = load(str(base), adapter_path=str(folder))[0]
    found = plain_logits(lambda ids: np.array(model(mx.array(ids))), rollouts)
    wanted = engine.logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("layers", "writer", "other"), [(1, "torch", "mlx"), (0, "mlx", "torch")])
def test_each_engine_reads_the_others_adapters(
    tiny_model: Path, tmp_path: Path, writer: str, other: str, layers: int
) -> None:
    """Of the last block, and of all."""
    adapter = LORA.model_copy(update={"layers": layers, "targets": ("q_proj", "down_proj")})
    engine, rollouts = build(writer, tiny_model, SMOOTH, adapter), made_up()
    train(engine, rollouts, 2)
    exported_adapters(engine, tmp_path)
    found = reader(other, tmp_path).logits(rollouts, rollouts.valid)
    np.testing.assert_allclose(found, engine.logits(rollouts, rollouts.valid), atol=2e-5, rtol=1e-5)


def test_both_engines_begin_with_the_same_adapters(tiny_model: Path) -> None:
    """From the same seed, to the bit."""
    one, other = (adapters_of(build(name, tiny_model, SMOOTH, LORA)) for name in ENGINES)
    assert one.keys() == other.keys()
    assert apart(one, other) == 0


PEFT: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("Lora", {}),
    "dora": ("Lora", {"use_dora": True}),
    "scaled by the root": ("Lora", {"use_rslora": True}),
    "ranks by layer": ("Lora", {"rank_pattern": {"q_proj": 2}, "alpha_pattern": {"v_proj": 3}}),
    "head": ("Lora", {"target_modules": ["lm_head", "q_proj"]}),
    "prompt": ("PromptTuning", {}),
}
REFUSED = {"torch": {"prompt"}, "mlx": PEFT.keys() - {"plain", "scaled by the root"}}


def written_by_peft(base: Path, folder: Path, kind: str) -> Any:
    """peft's own model with adapters of random weights, and these in the folder."""
    import peft

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
    return model


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
    engine = reader(engine_name, tmp_path)
    found = engine.logits(rollouts, rollouts.valid)
    wanted = plain_logits(by_torch(theirs), rollouts)
    np.testing.assert_allclose(found, wanted, atol=5e-5, rtol=1e-5)
    if engine_name == "mlx":  # which knows no settings of a later peft
        config = json.loads((tmp_path / CONFIG).read_text(encoding="utf-8"))
        (tmp_path / CONFIG).write_text(json.dumps({**config, "newer": 0.5}), encoding="utf-8")
        with refused("newer"):
            reader("mlx", tmp_path)


@pytest.mark.parametrize("how", [{"temperature": 1.5, "top_p": 0.8}, {"top_k": 3, "stop_ids": ()}])
def test_the_same_seed_samples_the_same_tokens_in_both_engines(how: dict[str, Any]) -> None:
    """Of the built-in model, with problems of its own."""
    engines = [build(name, BUILTIN["chain"]) for name in ENGINES]
    problems = find_task("chain").batch(0, 1, 5)
    prompts = [engines[0].tokenizer(problem.prompt)["input_ids"] for problem in problems]
    assert len(set(map(len, prompts))) > 1
    sampling = Sampling(40, **{"stop_ids": engines[0].stop_ids} | how)
    one, other = (engine.generate(prompts, 6, sampling, 3) for engine in engines)
    for name in ("tokens", "lengths", "finished"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert len(np.unique(one.tokens, axis=0)) > len(prompts)


ROPE: dict[str, dict[str, Any]] = {
    "llama3": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "linear": {"factor": 2.0},
}


@pytest.mark.parametrize("kind", first(list(ROPE)))
def test_rotary_settings_are_kept(kind: str, tiny_model: Path, tmp_path: Path) -> None:
    """As transformers 5 saves them, in `rope_parameters` alone: by both engines as they load, and
    on the way from each through an export to the other."""
    folder, rollouts = tmp_path / "rotary", made_up()
    config = AutoConfig.from_pretrained(tiny_model)
    original = {"original_max_position_embeddings": 32} if kind == "llama3" else {}
    config.rope_parameters = {"rope_theta": 50.0, "rope_type": kind} | ROPE[kind] | original
    AutoModelForCausalLM.from_pretrained(tiny_model, config=config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    assert written["rope_parameters"]["rope_theta"] == 50.0 and "rope_theta" not in written
    wanted = Oracle(folder).logp(rollouts, 1.0)
    assert np.abs(wanted - Oracle(tiny_model).logp(rollouts, 1.0)).max() > 0.1
    for writer in ENGINES:
        engine = build(writer, folder)
        out = exported(engine, tmp_path / writer)
        readers = [build(name, out) for name in ENGINES]
        for found in (Oracle(out).logp(rollouts, 1.0), *(logp_of(e, rollouts) for e in readers)):
            np.testing.assert_allclose(found, wanted, atol=1e-5, rtol=1e-5)
        for other in readers:
            assert (other.stop_ids, other.context) == (engine.stop_ids, engine.context)
