"""Laws of what is exported and evaluated: it is what was trained, and how much is measured."""

import re
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from ictcli.evaluation.settings import ModelSettings
from ictcli.export.kept import Kept, measure
from ictcli.recipe import Recipe, load_recipe
from ictcli.recipe.tables import NewAdapters
from ictcli.rewards import Verdict
from ictcli.runs import Run, checkpoints
from ictcli.runs.checkpoints import State
from ictcli.runs.model import find_models
from ictcli.runs.rollouts import Batch, write_rollouts
from ictcli.train.finish import export
from ictcli.train.launch import environment
from ictcli.types import FloatArray, Problem, Rollouts

from .conftest import Make, made_up, reader
from .lowrank import LORA, exported_adapters
from .oracle import Oracle
from .training import LR, SMOOTH, exported, plain_update, train

WEIGHTS = "model.safetensors"


def log_softmax(logits: FloatArray) -> FloatArray:
    return logits - np.logaddexp.reduce(logits, axis=-1, keepdims=True)


def kl(p: FloatArray, q: FloatArray) -> float:
    """Mean KL(p || q) of float64 logits (N, V)."""
    logp, logq = log_softmax(p.astype(np.float64)), log_softmax(q.astype(np.float64))
    return float((np.exp(logp) * (logp - logq)).sum(axis=-1).mean())


@pytest.fixture(scope="module")
def half_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tied model in bfloat16, as most models are published."""
    folder = tmp_path_factory.mktemp("models") / "half"
    rounded: Any = AutoModelForCausalLM.from_pretrained(tiny_model, dtype=torch.bfloat16)
    rounded.save_pretrained(folder)
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(folder)
    return folder


def copied(folder: Path, out: Path, change: Any) -> Path:
    """A model with its weights changed."""
    out.mkdir()
    for file in folder.iterdir():
        (out / file.name).write_bytes(file.read_bytes())
    weights = {name: change(name, value) for name, value in load_file(folder / WEIGHTS).items()}
    save_file(weights, out / WEIGHTS, metadata={"format": "pt"})
    return out


def types(folder: Path) -> set[torch.dtype]:
    return {weight.dtype for weight in load_file(folder / WEIGHTS).values()}


@pytest.mark.parametrize(
    ("adapter", "lr", "written"),
    [(LORA, LR, torch.float16), (LORA, 1e-6, torch.float32)],
    ids=["lora", "a change that float16 rounds away"],
)
def test_a_merge_keeps_what_was_trained_of_a_bfloat16_model(
    make_engine: Make,
    engine_name: str,
    half_model: Path,
    tmp_path: Path,
    adapter: NewAdapters,
    lr: float,
    written: torch.dtype,
) -> None:
    """Which bfloat16 does not."""
    engine, rollouts = make_engine(half_model, SMOOTH, adapter, dtype="bfloat16"), made_up()
    for n in range(3):
        engine.update(plain_update(rollouts, n), lr)
    whole = exported(engine, tmp_path / "whole")
    adapted = reader(engine_name, exported_adapters(engine, tmp_path / "adapter"))
    rounded = copied(
        exported(adapted, tmp_path / "float32"),
        tmp_path / "rounded",
        lambda _, weight: weight.bfloat16(),
    )
    assert types(whole) == types(tmp_path / "float32") == {written}  # whatever computes
    trained = adapted.logits(rollouts, rollouts.valid)
    base, kept, lost = (
        kl(trained, Oracle(folder).logits(rollouts, rollouts.valid))
        for folder in (half_model, whole, rounded)
    )
    assert 1 - kept / base > 0.99
    assert 1 - lost / base < 0.99


def test_a_weight_that_float16_does_not_hold_is_written_in_float32(
    make_engine: Make, half_model: Path, tmp_path: Path
) -> None:
    """Of a norm, which no adapter changes; and of all others with it."""

    def large(name: str, weight: torch.Tensor) -> torch.Tensor:
        return weight * 1e5 if name == "model.norm.weight" else weight

    folder = copied(half_model, tmp_path / "large", large)
    engine = make_engine(folder, SMOOTH, LORA, dtype="bfloat16")
    assert types(exported(engine, tmp_path / "whole")) == {torch.float32}


SUMMED = re.compile(r"KL per token from .* is (\S+) to this export and (\S+) to the base")


@pytest.fixture
def recipe(half_model: Path) -> Recipe:
    return load_recipe("chain", [f"model={half_model}"])


def record(run: Path, rollouts: Rollouts) -> None:
    rows, prompts = len(rollouts), len(rollouts.prompts)
    problems = [Problem(str(n), "p", "g") for n in range(prompts)]
    verdicts = [Verdict("correct")] * rows
    zeros = np.zeros(rows, np.float32)
    batch = Batch(problems, rollouts, ["t"] * rows, verdicts, zeros, zeros)
    kept = np.zeros(rollouts.tokens.shape, bool)
    file = run / "rollouts" / "step-000003.safetensors"
    write_rollouts(file, 3, batch, kept, kept.astype(np.float32))


def test_what_an_export_keeps_is_the_share_of_the_divergence(
    make_engine: Make, engine_name: str, half_model: Path, recipe: Recipe, tmp_path: Path
) -> None:
    """As an oracle computes it; a base that training did not move is no division by 0."""
    engine, rollouts = make_engine(half_model, SMOOTH, LORA), made_up()
    train(engine, rollouts, 3)
    adapter = exported_adapters(engine, tmp_path / "adapter")
    whole = exported(engine, tmp_path / "whole")
    record(tmp_path, rollouts)

    read = cache(partial(reader, engine_name))

    def kept(trained: Path, other: Path, base: Path = half_model) -> Kept:
        one, *others = (partial(read, folder) for folder in (trained, base, other))
        return measure(tmp_path, None, recipe, one, others)

    rough = copied(whole, tmp_path / "rough", lambda _, weight: weight.half().bfloat16())
    found = kept(adapter, rough)
    p, q, base = (Oracle(x).logits(rollouts, rollouts.valid) for x in (whole, rough, half_model))
    shown = SUMMED.search(found.sentence)
    assert shown is not None
    values = [float(value) for value in shown.groups()]
    np.testing.assert_allclose(values, [kl(p, q), kl(p, base)], rtol=0.06)
    assert f"keeps {100 - 100 * kl(p, q) / kl(p, base):.1f} % of" in found.sentence
    assert found.low == (kl(p, q) > 0.01 * kl(p, base))
    assert (kept(adapter, whole).low, kept(adapter, half_model).low) == (False, True)
    assert "keeps more than 99.9 %" in kept(adapter, whole).sentence
    assert "keeps nothing" in kept(adapter, half_model).sentence
    unmoved = kept(half_model, half_model)
    assert "hardly changed" in unmoved.sentence and not unmoved.low
    assert kept(half_model, rough).low
    broken = kept(adapter, copied(whole, tmp_path / "broken", lambda _, weight: weight * torch.inf))
    assert "not finite" in broken.sentence and broken.low


def test_weights_are_compared_as_training_had_them_and_not_its_arithmetic(
    make_engine: Make, engine_name: str, tiny_model: Path, tmp_path: Path
) -> None:
    """A base of float32 that training rounded to bfloat16 counts rounded, and bfloat16's products,
    which would be most of so small a divergence, do not count."""
    engine, rollouts = make_engine(tiny_model, SMOOTH, LORA, dtype="bfloat16"), made_up()
    train(engine, rollouts, 2)
    adapter = exported_adapters(engine, tmp_path / "adapter")
    whole = exported(engine, tmp_path / "whole")
    record(tmp_path, rollouts)
    rounded = partial(reader, engine_name, dtype="bfloat16")
    one, base = partial(rounded, adapter), partial(rounded, tiny_model)
    recipe = load_recipe("chain", [f"model={tiny_model}"])
    found = measure(tmp_path, None, recipe, one, (base, partial(reader, engine_name, whole)))
    assert "keeps more than 99.9 % of" in found.sentence


def test_what_cannot_be_measured_is_said_in_a_sentence(
    engine_name: str, half_model: Path, recipe: Recipe, tmp_path: Path
) -> None:
    build = cache(partial(reader, engine_name))
    engines = partial(build, half_model), [partial(build, half_model)] * 2

    def said(of: Recipe = recipe, step: int | None = None) -> str:
        found = measure(tmp_path, step, of, *engines)
        assert not found.low
        return found.sentence

    assert "not measured: the run recorded no rollouts" in said()
    record(tmp_path, made_up())
    assert "hardly changed" in measure(tmp_path, 3, recipe, *engines).sentence
    assert "hardly changed" in said(step=2)
    assert "not measured: this needs 0.8 GiB" in said(recipe.with_engine(memory_limit=0.5))
    gone = [partial(build, half_model), partial(build, tmp_path / "gone")]
    found = measure(tmp_path, None, recipe, engines[0], gone)
    assert str(tmp_path) in found.reason and str(tmp_path) not in found.sentence
    (tmp_path / "rollouts" / "step-000003.safetensors").write_bytes(b"none")
    assert "could not be read" in said()


@pytest.mark.parametrize(
    ("adapter", "dtype"),
    [(None, "float32"), (LORA, "bfloat16"), (None, "bfloat16"), (LORA, "float32")],
    ids=["all weights", "lora of bfloat16", "masters", "lora"],
)
def test_what_eval_loads_of_a_run_is_the_policy_that_was_evaluated(
    make_engine: Make,
    engine_name: str,
    half_model: Path,
    tmp_path: Path,
    adapter: NewAdapters | None,
    dtype: str,
) -> None:
    """To the bit: of the finished run, even beside a model made of its adapters, and of a
    checkpoint, whose masters are no policy."""
    engine, rollouts = make_engine(half_model, SMOOTH, adapter, dtype=dtype), made_up()
    train(engine, rollouts, 2)
    table = adapter.model_dump() if adapter else {"kind": "none"}
    adapters = [f"adapter.{key}={table[key]}" for key in ("kind", "rank", "alpha") if key in table]
    own = [f"model={half_model}", f"engine.backend={engine_name}", "engine.device=cpu"]
    recipe = load_recipe("chain", [*own, "engine.threads=1", *adapters])
    wanted = engine.logits(rollouts, rollouts.valid)
    with Run.create(tmp_path / "run", recipe) as run:
        run.write("environment.json", environment(engine, recipe))
        export(run, recipe, engine)
        checkpoints.save(run.folder, engine, State(step=2), "a hash")
        if adapter:
            exported(engine, run.folder / "model")
    for which in (None, "2"):
        (spec,) = find_models([str(run.folder)], ModelSettings(), which)
        found = spec.load().logits(rollouts, rollouts.valid)
        np.testing.assert_array_equal(found, wanted)
