"""The memory plan: laws of its parts, and what it advises."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ictcli.planning.advice import look_ahead, remedies
from ictcli.planning.auto import MARGIN, choose, largest, with_tokens
from ictcli.planning.machine import Room
from ictcli.planning.peaks import Plan, plan
from ictcli.planning.shapes import Shape, read_shape
from ictcli.recipe import Recipe, check, load_recipe, shipped_recipes

QWEN = Shape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32768, tied=True)
"""Qwen2.5-0.5B."""

shapes = st.builds(
    lambda layers, heads, head_dim, ratio, vocabulary, tied, bits: Shape(
        *("qwen2", layers, heads * head_dim, heads, heads // 2, head_dim),
        *(ratio * heads * head_dim, vocabulary, 32768, tied, bits),
    ),
    st.integers(1, 30),
    st.sampled_from([2, 8, 14]),
    st.sampled_from([32, 64, 128]),
    st.integers(2, 6),
    st.sampled_from([100, 5000, 151_936]),
    st.booleans(),
    st.sampled_from([0, 4]),
)
engines = st.fixed_dictionaries(
    {
        "backend": st.sampled_from(["mlx", "torch"]),
        "micro_tokens": st.sampled_from([1, 300, 1024, 2048, 8192]),
        "gradient_checkpointing": st.booleans(),
        "dtype": st.sampled_from(["auto", "float32", "bfloat16"]),
        "rows": st.sampled_from([1, 7, 64, 512]),
    }
)
tables = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["ict", "grpo", "entropy20", "frequent"]),
        "prompts": st.integers(1, 32),
        "group": st.sampled_from([2, 8]),
        "max_tokens": st.sampled_from([20, 500, 3000]),
        "warmup": st.sampled_from([0, 5]),
        "kl": st.sampled_from([0.0, 0.1]),
        "entropy": st.sampled_from([0.0, 0.1]),
        "adapter": st.sampled_from([{}, {"kind": "lora", "layers": 1}, {"kind": "dora"}]),
        "engine": engines,
    }
)


def recipe_of(**given: Any) -> Recipe:
    """A recipe of one step on the MLX engine; `given` overrides, tables within."""
    engine = {"backend": "mlx", **given.pop("engine", {})}
    fixed = {"model": "builtin:chain", "task": "chain", "method": "grpo", "steps": 1}
    return check({**fixed, **given, "engine": engine}, "test")


def with_engine(table: dict[str, Any], **changed: Any) -> Recipe:
    return recipe_of(**{**table, "engine": {**table["engine"], **changed}})


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_are_those_of_the_model(
    tiny_model: Path, untied_model: Path, tmp_path: Path, *, tied: bool
) -> None:
    from transformers import AutoModelForCausalLM

    folder = tiny_model if tied else untied_model
    true = AutoModelForCausalLM.from_pretrained(folder).num_parameters()
    shape = read_shape(str(folder))
    assert shape.tied == tied
    assert shape.parameters == true  # by the headers of its files
    assert replace(shape, stored=None).parameters == true  # by its config alone
    assert shape.weights(4) == replace(shape, stored=None).weights(4) == 4 * true


def test_the_known_size_of_a_known_model() -> None:
    assert QWEN.parameters == 494_032_768


def test_weights_of_4_bits_are_a_good_quarter() -> None:
    assert QWEN.packed(4).weights(2) / QWEN.weights(2) == pytest.approx(0.28, abs=0.005)
    assert QWEN.packed(4).parameters == QWEN.parameters


@given(shapes, tables, st.booleans())
def test_more_rows_never_lower_the_sampling_peak(
    shape: Shape, table: dict[str, Any], gpu: bool
) -> None:
    peaks = [
        plan(with_engine(table, rows=rows), shape, device="gpu" if gpu else "cpu").peak("sampling")
        for rows in (1, 4, 16, 64, 512)
    ]
    assert peaks == sorted(peaks)


@given(shapes, tables, st.booleans())
def test_halving_the_tokens_of_a_pass_never_raises_the_update_peak(
    shape: Shape, table: dict[str, Any], gpu: bool
) -> None:
    peaks = [
        plan(with_engine(table, micro_tokens=tokens), shape, device="gpu" if gpu else "cpu").peak(
            "updating"
        )
        for tokens in (512, 1024, 2048, 4096, 8192)
    ]
    assert peaks == sorted(peaks)


@given(shapes, tables, st.booleans())
def test_checkpointing_never_raises_a_peak(shape: Shape, table: dict[str, Any], gpu: bool) -> None:
    off, on = (
        plan(
            with_engine(table, gradient_checkpointing=active), shape, device="gpu" if gpu else "cpu"
        )
        for active in (False, True)
    )
    assert on.peak("updating") <= off.peak("updating")
    assert on.peak("sampling") == off.peak("sampling")


@given(shapes, tables)
def test_adapters_train_fewer_and_hold_no_reference(shape: Shape, table: dict[str, Any]) -> None:
    full, lora, dora = (
        plan(recipe_of(**{**table, "adapter": {"kind": kind, "rank": 4}}), shape, device="gpu")
        for kind in ("none", "lora", "dora")
    )
    assert full.trained == shape.parameters
    assert 0 < lora.trained < dora.trained < full.trained
    assert bool(full.phases["updating"]["reference policy"]) == (table["kl"] > 0)
    for made in (lora, dora):
        assert made.phases["updating"]["reference policy"] == 0


def test_adapters_of_some_layers_of_some_blocks() -> None:
    settings = {"kind": "lora", "rank": 8, "layers": 3, "targets": ["q_proj", "mlp.down_proj"]}
    made = plan(recipe_of(adapter=settings), QWEN, device="gpu")
    assert made.trained == 3 * 8 * ((896 + 896) + (4864 + 896))


@given(shapes, tables, st.booleans())
def test_every_part_is_counted_once(shape: Shape, table: dict[str, Any], gpu: bool) -> None:
    made = plan(recipe_of(**table), shape, device="gpu" if gpu else "cpu")
    for phase, parts in made.phases.items():
        assert all(size >= 0 for size in parts.values())
        assert made.peak(phase) == sum(parts.values()) >= shape.weights(2)
    assert made.peak() == max(made.peak(phase) for phase in made.phases)


def test_prompts_leave_room_for_the_response() -> None:
    short = replace(QWEN, context=600)
    assert plan(recipe_of(max_tokens=500), short, device="gpu").prompt == 100
    assert plan(recipe_of(max_tokens=500), QWEN, device="gpu").prompt == 256


def test_what_suffices_first_is_advised_alone() -> None:
    recipe = recipe_of(engine={"device": "gpu", "micro_tokens": 8192}, max_tokens=512)
    made = plan(recipe, QWEN, device="gpu")
    changes, better = remedies(recipe, made, made.peak() * 0.99)
    assert changes == [("engine", "gradient_checkpointing", True)]
    assert better.peak() < made.peak()


@given(st.floats(0.02, 1.2))
def test_advice_is_no_more_than_it_takes(share: float) -> None:
    recipe = recipe_of(engine={"device": "gpu"}, max_tokens=1024, prompts=16, group=8)
    made = plan(recipe, QWEN, device="gpu")
    limit = share * made.peak()
    changes, better = remedies(recipe, made, limit)
    assert better.peak() <= max(limit, made.peak())
    assert [key for _, key, _ in changes] == [
        key
        for key in ("gradient_checkpointing", "micro_tokens", "rows", "kind", "load_in_4bit")
        if key in {key for _, key, _ in changes}
    ]
    if better.peak() <= limit:
        for i in range(len(changes)):
            assert changed(recipe, changes[:i] + changes[i + 1 :]).peak() > limit


def changed(recipe: Recipe, changes: list[tuple[str, str, Any]]) -> Plan:
    for table, key, value in changes:
        inner = getattr(recipe, table).model_copy(update={key: value})
        recipe = recipe.model_copy(update={table: inner})
    return plan(recipe, QWEN, device="gpu")


@given(tables, st.floats(0.3, 30))
def test_auto_takes_the_most_that_fits(table: dict[str, Any], gib: float) -> None:
    recipe = with_engine(table, device="cpu", micro_batch="auto")
    tokens = largest(recipe, QWEN, gib * 2**30)

    def peak(tokens: int) -> float:
        return plan(with_tokens(recipe, tokens), QWEN, device="cpu").peak("updating")

    one = 256 + recipe.max_tokens
    batch = recipe.prompts * recipe.group
    assert tokens % one == 0
    assert tokens == one or peak(tokens) <= MARGIN * gib * 2**30
    assert tokens == one * batch or peak(tokens + one) > MARGIN * gib * 2**30


def test_what_auto_chose_is_kept_and_told_once() -> None:
    recipe, told = recipe_of(engine={"micro_batch": "auto"}), list[str]()
    chosen = choose(recipe, None, told.append, Room(2**31, "a machine"))
    assert len(told) == 1
    assert f"{chosen['micro_tokens']:,} tokens a pass" in told[0]
    assert choose(recipe, chosen["micro_tokens"], told.append, Room(2**40, "another")) == chosen
    assert len(told) == 1
    assert choose(recipe_of(), None, told.append) == {}


def test_a_hub_id_that_cannot_be_had_is_a_sentence() -> None:
    outlook = look_ahead(recipe_of(model="nobody/has-this"))
    assert outlook is not None
    assert outlook.plan is None
    assert "needs the model's config.json" in outlook.sentence
    assert "hf download nobody/has-this config.json" in outlook.sentence


def test_a_hub_id_in_the_cache_needs_its_config_alone(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.json"
    config.write_text((tiny_model / "config.json").read_text())
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *given: str(config))
    shape = read_shape("somebody/has-this")
    assert shape.stored is None
    assert shape.parameters == read_shape(str(tiny_model)).parameters


@pytest.mark.parametrize("config", ["{", "[]", "{}", '{"num_attention_heads": "x"}'])
def test_a_model_of_another_kind_is_a_sentence(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.json").write_text(config)
    path = str(tmp_path / "config.json")
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *given: path)
    outlook = look_ahead(recipe_of(model="somebody/has-this"))
    assert outlook is not None
    assert outlook.plan is None
    assert path in outlook.sentence


SCRIPT = """
import sys
from ictcli.cli import main
try:
    main()
except SystemExit:
    pass
print([name for name in ("torch", "mlx", "mlx_lm", "transformers") if name in sys.modules])
"""


def dry_run(*arguments: str) -> tuple[str, str, str]:
    """stdout without its last line, stderr, and that line: what heavy was imported."""
    command = [sys.executable, "-c", SCRIPT, "train", "quickstart", *arguments, "--dry-run"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    out, _, imported = ended.stdout.rstrip("\n").rpartition("\n")
    return out, ended.stderr, imported


def test_a_dry_run_shows_the_memory_and_imports_no_engine() -> None:
    out, err, imported = dry_run("--backend", "mlx")
    assert imported == "[]"
    assert tomllib.loads(out)["model"] == "builtin:chain"
    assert load_recipe("quickstart", ["engine.backend=mlx"]) == check(tomllib.loads(out), "out")
    assert "335,136 parameters" in err
    for part in ("weights", "AdamW's moments", "KV cache", "LM head", "activations", "peak"):
        assert part in err
    assert err.splitlines()[-1].startswith("It fits: ")


def test_apple_silicon_computes_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("ictcli.engine.registry.is_installed", lambda name: True)
    here, cpu = (
        look_ahead(recipe_of(engine={"backend": "auto", "device": device}))
        for device in ("auto", "cpu")
    )
    assert here is not None and here.plan is not None
    assert cpu is not None and cpu.plan is not None
    assert here.plan.phases["updating"]["weights"] == 2 * 335_136
    assert cpu.plan.phases["updating"]["weights"] == 4 * 335_136


@pytest.mark.parametrize("backend", ["torch", "mlx"])
def test_a_dry_run_as_json_says_what_would_make_it_fit(backend: str) -> None:
    out, _, imported = dry_run("--backend", backend, "--json", "--memory", "0.25")
    assert imported == "[]"
    found = json.loads(out)
    assert check(found["recipe"], "out") == load_recipe("quickstart", [f"engine.backend={backend}"])
    memory = found["memory"]
    assert memory["limit_bytes"] == 0.75 * 2**28
    assert memory["plan"]["trained"] == 335_136
    assert memory["plan"]["tokens_per_step"] == 32 * 8 * 256
    for phase, size in memory["plan"]["peak_bytes"].items():
        assert sum(memory["plan"]["bytes"][phase].values()) == pytest.approx(size, abs=99)
    assert memory["fits"] == (backend == "mlx")
    assert bool(memory["changes"]) == (not memory["fits"])


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_every_shipped_recipe_can_be_planned(recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ictcli.planning.advice.read_shape", lambda model: QWEN)
    for backend, device in (("mlx", "gpu"), ("torch", "cpu"), ("torch", "cuda")):
        chosen = [f"engine.backend={backend}", f"engine.device={device}"]
        for gib in (8.0, 24.0):
            outlook = look_ahead(load_recipe(recipe, chosen), gib)
            assert outlook is not None
            assert outlook.plan is not None
            assert outlook.fits is not None
