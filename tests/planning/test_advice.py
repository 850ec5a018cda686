"""What is said before a run: of its memory, of what it would refuse, and of its prompts."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusing import refused
from workloads import QWEN, recipe_of
from written import sums, write

from ictcli.cli import cli
from ictcli.planning.advice import Change, check_memory, remedies
from ictcli.planning.estimate import MemoryEstimate, estimate_memory
from ictcli.planning.machine import memory_limit
from ictcli.planning.preflight import preflight
from ictcli.recipe import Recipe, check, load_recipe, shipped_recipes
from ictcli.tasks.prepare import task_of


def test_what_suffices_first_is_advised_alone() -> None:
    recipe = recipe_of(engine={"device": "gpu", "micro_tokens": 8192}, max_tokens=512)
    estimate = estimate_memory(recipe, QWEN)
    changes, peak = remedies(recipe, estimate, estimate.peak() * 0.99)
    assert changes == (("engine.gradient_checkpointing", True),)
    assert peak < estimate.peak()


@given(st.floats(0.02, 0.99), st.sampled_from(["cpu", "gpu"]))
def test_advice_is_no_more_than_it_takes(share: float, device: str) -> None:
    recipe = recipe_of(engine={"device": device}, max_tokens=1024, prompts=16, group=8)
    estimate = estimate_memory(recipe, QWEN)
    limit = share * estimate.peak()
    changes, peak = remedies(recipe, estimate, limit)
    assert len(changes) <= 3 and peak <= max(limit, estimate.peak())
    assert device == "cpu" or ("engine.dtype", "bfloat16") not in changes
    if peak <= limit:
        for i in range(len(changes)):
            assert changed(recipe, changes[:i] + changes[i + 1 :]).peak() > limit


def changed(recipe: Recipe, changes: tuple[Change, ...]) -> MemoryEstimate:
    for name, value in changes:
        table, _, key = name.partition(".")
        inner = getattr(recipe, table).model_copy(update={key: value})
        recipe = recipe.model_copy(update={table: inner})
    return estimate_memory(recipe, QWEN)


def test_a_hub_id_that_cannot_be_had_is_a_sentence() -> None:
    memory = check_memory(recipe_of(model="nobody/has-this"))
    assert memory.estimate is None
    for words in ("is not in the cache", "hf download nobody/has-this"):
        assert words in memory.sentence


def test_apple_silicon_computes_in_16_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    monkeypatch.setattr("ictcli.engine.registry.is_installed", lambda name: True)
    here, cpu = (
        check_memory(recipe_of(engine={"backend": "auto", "device": device}))
        for device in ("auto", "cpu")
    )
    assert here.estimate is not None and cpu.estimate is not None
    assert here.estimate.phases["updating"]["weights"] == 2 * 335_136
    assert cpu.estimate.phases["updating"]["weights"] == 4 * 335_136


@pytest.mark.parametrize("backend", ["torch", "mlx"])
def test_a_dry_run_as_json_says_what_would_make_it_fit(
    capsys: pytest.CaptureFixture[str], backend: str
) -> None:
    typed = ["train", "chain", "--backend", backend, "--json", "--memory", "0.25", "--dry-run"]
    cli.main(typed, standalone_mode=False)
    printed = json.loads(capsys.readouterr().out)
    loaded = load_recipe("chain", [f"engine.backend={backend}"])
    assert check(printed["recipe"], "out") == loaded
    memory = printed["memory"]
    assert memory["limit_bytes"] == 0.75 * 2**28
    assert memory["plan"]["trained"] == 335_136
    assert memory["plan"]["tokens_per_step"] == 32 * 8 * 256
    for phase, size in memory["plan"]["peak_bytes"].items():
        assert sum(memory["plan"]["bytes"][phase].values()) == pytest.approx(size, abs=99)
    assert memory["fits"] == (backend == "mlx")
    assert bool(memory["changes"]) == (not memory["fits"])


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_can_be_planned_and_looked_at_without_a_network(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    preflight(load_recipe(name))
    monkeypatch.setattr("ictcli.planning.advice.read_shape", lambda model: QWEN)
    for backend, device in (("mlx", "gpu"), ("torch", "cpu"), ("torch", "cuda")):
        chosen = [f"engine.backend={backend}", f"engine.device={device}"]
        planned = load_recipe(name, chosen)
        for gib in (8.0, 24.0):
            memory = check_memory(planned, memory_limit(planned.engine, gib))
            assert memory.estimate is not None and memory.fits is not None


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["task=nothing"], "no task 'nothing'"),
        (["task=none.jsonl"], "no data file none.jsonl"),
        (["reward.verifier=nothing"], "nothing"),
        (["task={d}", "columns.prompt=frage"], "no column 'frage'"),
        (["task=hub:me/mine", "eval.bench={d}", "eval.columns.gold=antwort"], "column 'antwort'"),
        (["eval.bench={d}", "eval.skip=1000"], "after the first 1000"),
        (["max_tokens=100000"], "max_tokens = 100000 leaves no room for a prompt"),
    ],
)
def test_what_a_run_refuses_a_dry_run_refuses(
    tmp_path: Path, overrides: list[str], words: str
) -> None:
    data = write(tmp_path, sums(range(60)))
    recipe = load_recipe("chain", [text.format(d=data) for text in overrides])
    with refused(words):
        preflight(recipe)


def test_data_of_the_hub_is_not_opened() -> None:
    assert "is not used here in a dry run" in preflight(load_recipe("chain", ["task=gsm8k"]))[0]
    assert not preflight(load_recipe("chain"))


@pytest.mark.parametrize(("asked", "skip"), [(2, 0), (500, 0), (500, 2)])
def test_a_small_held_out_part_is_noted(tmp_path: Path, asked: int, skip: int) -> None:
    data = write(tmp_path, sums(range(100)))
    over = [f"task={data}", f"eval.problems={asked}", f"eval.skip={skip}"]
    task = task_of(load_recipe("chain", over))
    found = len(task.held) - skip
    notes = [note for note in task.notes if f"has {found} held-out problem" in note]
    assert len(notes) == (found < asked)


def test_the_estimate_takes_prompts_as_long_as_they_may_be() -> None:
    def prompt_of(*overrides: str, prompt: int = 256) -> int:
        recipe = load_recipe("chain", ["engine.backend=torch", *overrides])
        estimate = check_memory(recipe, prompt=prompt).estimate
        assert estimate is not None
        return estimate.prompt

    bare = prompt_of()
    assert prompt_of("prompt.max_tokens=20") == 20 < bare == prompt_of("prompt.max_tokens=9999")
    assert prompt_of(prompt=30) == 30 and prompt_of("prompt.max_tokens=20", prompt=30) == 20
