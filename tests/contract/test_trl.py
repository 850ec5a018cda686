"""TRL's engine: the torch engine's numbers, in one process and in two, and what it refuses."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from ictcli.algorithm.methods import Scored, find_method
from ictcli.algorithm.objective import Objective
from ictcli.algorithm.weights import normalise
from ictcli.engine import build_engine, find_launcher
from ictcli.engine.shape import ModelShape
from ictcli.engine.update import Update
from ictcli.errors import EngineMissingError, UserError
from ictcli.planning.estimate import estimate_memory
from ictcli.planning.preflight import recipe_notes
from ictcli.recipe.load import check
from ictcli.recipe.tables import EngineSettings
from ictcli.types import FloatArray, Rollouts, Sampling

from .conftest import PROMPTS, WANTED
from .lowrank import LORA
from .training import LR, PLAIN, SMOOTH, advantages, sparse_weights

pytest.importorskip("trl")

QWEN = ModelShape("qwen2", 24, 896, 14, 2, 64, 4864, 151_936, 32768, tied=True)
"""Qwen2.5-0.5B."""
GROUP = 4
CLOSE = 1e-5


def build(name: str, model: Path | str, *more: Any) -> Any:
    settings = EngineSettings(backend=name, device="cpu", dtype="float32", threads=1)
    return build_engine(str(model), settings, SMOOTH, *more)


@pytest.fixture(scope="module")
def pair(tiny_model: Path) -> Iterator[tuple[Any, Any]]:
    """The torch engine and TRL's, whose weights these tests leave as they are."""
    engines = build("torch", tiny_model), build("trl", tiny_model)
    for engine in engines:
        engine.keep_reference()
    yield engines


@pytest.fixture(scope="module")
def sampled(pair: tuple[Any, Any]) -> Rollouts:
    sampling = Sampling(14, 0.7, stop_ids=(17, 4))
    one, other = (engine.generate(PROMPTS, GROUP, sampling, 7, WANTED) for engine in pair)
    np.testing.assert_array_equal(one.tokens, other.tokens)
    return one


def gradient(model: Any) -> dict[str, FloatArray]:
    return {name: p.grad.numpy().copy() for name, p in model.named_parameters()}


def assert_same_step(pair: tuple[Any, Any], update: Update) -> None:
    torch, trl = pair
    one, other = torch.gradient(update), trl.gradient(update)
    assert one.count > 0
    assert abs(one.loss - other.loss) < CLOSE
    assert (one.clipped, one.count) == (other.clipped, other.count)
    assert abs(one.kl - other.kl) < CLOSE
    np.testing.assert_allclose(one.logp, other.logp, atol=CLOSE)
    expected, found = gradient(torch.model), gradient(trl.trained)
    assert expected.keys() == found.keys()
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], atol=CLOSE, err_msg=name)


METHODS: tuple[dict[str, Any], ...] = (
    {"name": "ict", "keep": 0.3, "scope": "response"},
    {"name": "ict", "keep": 0.3, "scope": "group"},
    {"name": "ict", "keep": 0.3, "scope": "batch", "advantage_power": 0.1},
    {"name": "random", "keep": 0.3},
    {"name": "frequent", "keep": 0.3},
    {"name": "kl", "keep": 0.3},
    {"name": "wasserstein", "keep": 0.3},
    {"name": "entropy20"},
    {"name": "stapo", "prob_below": 0.3},
    {"name": "clip_cov", "low": -9.0, "high": 9.0, "ratio": 0.1},
    {"name": "grpo"},
    {"name": "dr_grpo"},
    {"name": "dapo"},
)


def weights_of(method: dict[str, Any], rollouts: Rollouts, advantage: FloatArray) -> FloatArray:
    options = {key: value for key, value in method.items() if key != "name"}
    rule = find_method(method["name"])
    scored = Scored(
        stats=rollouts.stats,
        logp=rollouts.logp,
        advantage=advantage,
        correct=advantage > 0,
        valid=rollouts.valid,
        tokens=rollouts.tokens,
        texts=[""] * len(rollouts),
        group=GROUP,
        rng=np.random.default_rng(3),
    )
    kept = rule.rule(scored, rule.options(**options)).kept
    return normalise(kept, rollouts.valid, rule.normalisation, 20)


@pytest.mark.parametrize("method", METHODS, ids=lambda m: "-".join(map(str, m.values())))
def test_a_method_has_the_torch_engines_loss_and_gradient(
    pair: tuple[Any, Any], sampled: Rollouts, method: dict[str, Any]
) -> None:
    A = advantages(sampled)
    weights = weights_of(method, sampled, A)
    assert_same_step(pair, Update(sampled, weights, A, Objective(temperature=0.7)))


@pytest.mark.parametrize("kl", [0.0, 0.3])
@pytest.mark.parametrize("signed", [False, True])
def test_clipping_kl_and_signed_weights_too(
    pair: tuple[Any, Any], sampled: Rollouts, kl: float, signed: bool
) -> None:
    rng = np.random.default_rng(1)
    noise = rng.normal(size=sampled.logp.shape) * 0.3
    old = np.where(sampled.valid, sampled.logp + noise, 0).astype(np.float32)
    weights = sparse_weights(sampled)
    if signed:
        weights = weights * np.where(rng.random(weights.shape) < 0.5, -1, 1).astype(np.float32)
    objective = Objective(0.1, 0.3, kl=kl, temperature=0.7)
    update = Update(sampled, weights, advantages(sampled), objective, old)
    assert_same_step(pair, update)


def test_adapters_and_smaller_passes_too(
    tiny_model: Path, sampled: Rollouts, tmp_path: Path
) -> None:
    torch, trl = build("torch", tiny_model, LORA), build("trl", tiny_model, LORA)
    trl.budget.tokens = 40
    for n, engine in enumerate((torch, trl)):
        engine.keep_reference()
        objective = replace(PLAIN, kl=0.2)
        for seed in (1, 2):
            A = advantages(sampled, seed)
            engine.update(sampled, sparse_weights(sampled), A, objective, LR)
        (tmp_path / str(n)).mkdir()
        engine.save(tmp_path / str(n))
    assert apart(*(tmp_path / str(n) / "weights.safetensors" for n in (0, 1))) < CLOSE
    torch.restore(tmp_path / "1")  # a checkpoint is of both engines


@pytest.mark.parametrize(
    "setting", [{"entropy": 0.01}, {"method": "kl_cov"}, {"clip": {"on": "tv"}}]
)
def test_what_trls_loss_cannot_express_is_refused_and_names_the_torch_engine(
    setting: dict[str, Any],
) -> None:
    def recipe(backend: str) -> Any:
        table = {
            "model": "builtin:chain",
            "task": "chain",
            "method": "ict",
            "steps": 1,
            "engine": {"backend": backend},
        }
        return check(table | setting, "test")

    recipe_notes(recipe("torch"))
    with pytest.raises(UserError) as refused:
        recipe_notes(recipe("trl"))
    assert "TRL's loss has no place for" in refused.value.message
    assert "--backend torch" in refused.value.hint


def test_the_plan_of_a_process_is_that_of_its_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards divide what is held; copies of the gradients for messages add to it."""

    def parts(**env: str) -> dict[str, float]:
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        chosen = {"backend": "trl", "device": "cuda"}
        table = {"model": "builtin:chain", "task": "chain", "steps": 1, "method": "grpo"}
        recipe = check(table | {"kl": 0.1, "engine": chosen}, "test")
        phases = estimate_memory(recipe, QWEN).phases
        return phases["updating"] | {"sampling": phases["sampling"]["gathered weights"]}

    alone = parts()
    ddp = parts(WORLD_SIZE="8", RANK="0", MASTER_ADDR="here")
    fsdp = parts(ACCELERATE_USE_FSDP="true")
    assert alone["weights"] == ddp["weights"] == 4 * QWEN.parameters
    assert ddp["gradients"] == alone["gradients"] + 4 * QWEN.parameters
    for name in ("weights", "reference policy", "AdamW's moments"):
        assert fsdp[name] == alone[name] / 8
    assert fsdp["sampling"] == alone["sampling"] == 2 * QWEN.parameters


@pytest.mark.parametrize(("memory", "kind"), [(("--memory", "80"), "MULTI_GPU"), ((), "FSDP")])
def test_accelerate_reads_the_configuration_that_a_plan_writes(
    tmp_path: Path, memory: tuple[str, ...], kind: str
) -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from click.testing import CliRunner

    from ictcli.cli import cli

    file = tmp_path / "accelerate.yaml"
    asked = ["train", "quickstart", "--backend", "trl", "--dry-run", "--gpus", "8", *memory]
    planned = CliRunner().invoke(cli, [*asked, "--json", "--write-accelerate", str(file)])
    assert planned.exit_code == 0, planned.output
    read: Any = load_config_from_file(str(file))
    assert (read.distributed_type.value, read.num_processes) == (kind, 8)
    assert read.mixed_precision == "no"
    if kind == "FSDP":
        assert read.fsdp_config["fsdp_version"] == 2
    plan = json.loads(planned.stdout)
    assert plan["chosen"] == ("FSDP2" if kind == "FSDP" else "DDP")
    peaks = {name: max(one["peak_bytes"].values()) for name, one in plan["plans"].items()}
    assert peaks["FSDP2"] == peaks["ZeRO-3"]
    other = CliRunner().invoke(cli, [*asked, "--backend", "torch"])
    assert isinstance(other.exception, UserError)
    assert other.exception.hint == "--backend trl"


def test_a_launch_that_starts_one_process_of_several_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """accelerate launch --cpu --num_processes 2 sets these, and no rank."""
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "no")
    assert find_launcher() is None
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with pytest.raises(UserError, match="was told of several processes") as refused:
        find_launcher().run(pytest.fail)
    assert "torchrun --nproc-per-node" in refused.value.hint


def test_another_trl_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from ictcli_trl import hooks
    from trl.trainer.grpo_trainer import GRPOTrainer

    class Other:
        def _compute_loss(self, model: Any, batch: Any) -> None: ...

    assert hooks.misfit("1.16.3", GRPOTrainer) == ""
    assert "it is 1.17.0, and ictcli knows 1.16" in hooks.misfit("1.17.0", GRPOTrainer)
    assert "_compute_loss is another" in hooks.misfit("1.16.0", Other)
    hooks.trainer_class.cache_clear()
    monkeypatch.setattr(hooks, "version", lambda name: "2.0.0")
    with pytest.raises(EngineMissingError, match=r"it is 2\.0\.0"):
        hooks.trainer_class()


COMMAND = [
    *("train", "quickstart", "steps=2", "prompts=3", "group=4", "max_tokens=24", "keep=0.3"),
    *("warmup=1", "kl=0.01", "eval.problems=4", "eval.n=2", "eval.k=[1]", "optimizer.eps=0.01"),
    *("record.rollouts_every=1", "engine.threads=1", "--run", "run"),
]
"""Three prompts on two ranks, so that their shares differ; a large eps, as in `training.SMOOTH`."""


def launch(folder: Path, rank: int, port: int) -> subprocess.Popen[str]:
    """What torchrun starts, sharding by FSDP2."""
    place = folder / f"rank-{rank}"
    place.mkdir(parents=True)
    env = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    env |= {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "ACCELERATE_USE_CPU": "true"}
    env |= {"FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}  # as accelerate launch sets it
    return subprocess.Popen(
        [sys.executable, "-m", "ictcli", *COMMAND],
        cwd=place,
        env=os.environ | env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_two_processes_that_share_the_weights_train_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    started = [launch(tmp_path, rank, port) for rank in (0, 1)]
    monkeypatch.chdir(tmp_path)
    from click.testing import CliRunner

    from ictcli.cli import cli

    alone = CliRunner().invoke(cli, [*COMMAND, "--backend", "torch"])
    assert alone.exit_code == 0, alone.output
    try:
        said = [process.communicate(timeout=120)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0], said
    assert said[1] == ""
    assert not list((tmp_path / "rank-1").iterdir())

    run, name = tmp_path / "rank-0" / "run", "checkpoints/step-000002/weights.safetensors"
    assert apart(tmp_path / "run" / name, run / name) < CLOSE
    for step in (1, 2):
        folder = f"rollouts/step-{step:06d}"
        for file in (tmp_path / "run" / folder).glob("*.npz"):
            one, other = np.load(file), np.load(run / folder / file.name)
            for key in ("tokens", "kept"):
                np.testing.assert_array_equal(one[key], other[key])
    shown = CliRunner().invoke(cli, ["runs", "show", str(run), "--json"])
    assert '"parallelism": "fsdp2"' in (run / "environment.json").read_text()
    assert shown.exit_code == 0, shown.output


def apart(one: Path, other: Path) -> float:
    first, second = load_file(one), load_file(other)
    assert first.keys() == second.keys()
    return max(float(np.abs(first[name] - second[name]).max()) for name in first)
