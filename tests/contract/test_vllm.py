"""Rollouts that vLLM samples. Its interface is played by transformers, and by itself where it is
installed. On every rank of a launch `main` is run."""

import sys
from collections.abc import Generator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from ictcli_torch import vllm as sampler
from processes import finish, launch
from refusing import refused
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM

from ictcli.engine import build_engine
from ictcli.engine.core import WEIGHTS
from ictcli.engine.registry import communicator
from ictcli.errors import EngineMissingError, RunFailedError
from ictcli.planning.preflight import recipe_notes
from ictcli.recipe import load_recipe
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import LOGP, Rollouts, Sampling

from .conftest import PROMPTS, build, make_torch
from .models import make_kind
from .test_generate import same
from .training import SMOOTH, plain_update

INSTALLED = find_spec("vllm") is not None
HOT = Sampling(10, temperature=0.7, stop_ids=(17,), sampler="vllm")
WANTED = ("entropy", "prob", "uniqueness")


class Player:
    """vLLM's `LLM` as far as it is used: a plain model that draws token by token."""

    def __init__(self, model: str, **options: Any) -> None:
        assert options["load_format"] == "dummy" and options["skip_tokenizer_init"]
        config = AutoConfig.from_pretrained(model, **options["hf_overrides"])
        self.model: Any = AutoModelForCausalLM.from_config(config, dtype=torch.float32)

    def collective_rpc(self, method: str, kwargs: dict[str, Any]) -> None:
        assert method == "reload_weights"
        self.model.load_state_dict(dict(kwargs["weights_iterator"]), strict=True)

    def reset_prefix_cache(self) -> bool:
        return True

    def generate(self, prompts: Any, params: Any, *, use_tqdm: bool) -> list[Any]:
        asked = zip(prompts, params, strict=True)
        return [
            SimpleNamespace(outputs=[self.row(g, one["prompt_token_ids"], p) for g in range(p.n)])
            for one, p in asked
        ]

    @torch.inference_mode()
    def row(self, index: int, prompt: list[int], p: Any) -> Any:
        draws, ids, logprobs = torch.Generator().manual_seed(p.seed + index), list(prompt), []
        assert p.ignore_eos and p.logprobs == 0 and not p.top_k and p.top_p == 1
        while len(ids) < len(prompt) + p.max_tokens:
            logp = (self.model(torch.tensor([ids])).logits[0, -1] / p.temperature).log_softmax(-1)
            ids.append(int(torch.multinomial(logp.exp(), 1, generator=draws)))
            logprobs.append({ids[-1]: SimpleNamespace(logprob=float(logp[ids[-1]]))})
            if ids[-1] in p.stop_token_ids:
                break
        return SimpleNamespace(index=index, token_ids=ids[len(prompt) :], logprobs=logprobs)


def players() -> dict[str, ModuleType]:
    """What `import vllm` is to give, by name."""
    module: Any = ModuleType("vllm")
    groups: Any = ModuleType("vllm.distributed")
    module.LLM, module.SamplingParams = Player, SimpleNamespace
    groups.cleanup_dist_env_and_memory = dist.destroy_process_group
    return {"vllm": module, "vllm.distributed": groups}


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """`import vllm` gives the player."""
    for name, module in players().items():
        monkeypatch.setitem(sys.modules, name, module)
    for name in (*sampler.ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING", "TORCHDYNAMO_DISABLE"):
        monkeypatch.setenv(name, "")
    sampler._build.cache_clear()
    yield
    sampler._build.cache_clear()


def check(engine: Any, rollouts: Rollouts, most: float = 1e-4) -> None:
    """log pi and statistics are those of the model as it is now; ends are where stop tokens are."""
    exact = engine.score(rollouts, (*WANTED, LOGP), HOT.temperature)
    np.testing.assert_allclose(
        rollouts.logp, np.where(rollouts.valid, exact.pop(LOGP), 0), atol=most
    )
    for name, values in exact.items():
        np.testing.assert_allclose(rollouts.stats[name], values, atol=1e-6)
    ends = rollouts.tokens[np.arange(len(rollouts)), rollouts.lengths - 1]
    assert (rollouts.finished == (ends == 17)).all()
    assert (rollouts.tokens[~rollouts.valid] == 0).all()


@pytest.mark.parametrize("adapted", [False, True])
def test_vllm_samples_the_model_that_is_trained(
    tiny_model: Path, played: None, adapted: bool
) -> None:
    """After updates as well, adapters merged; a prompt's rows are the same beside any others."""
    adapter = NewAdapters(kind="lora", rank=4) if adapted else None
    engine = build("torch", tiny_model, SMOOTH, adapter=adapter)
    for _ in range(2):
        rollouts = engine.generate(PROMPTS, 3, HOT, seed=3, wanted=WANTED)
        assert rollouts.prompts == PROMPTS and len({*map(bytes, rollouts.tokens[:3])}) > 1
        check(engine, rollouts)
        first = engine.generate(PROMPTS[:1], 3, HOT, seed=3, wanted=WANTED)
        same(first, rollouts.groups(0, 1), atol=1e-5)
        assert engine.update(plain_update(rollouts), 0.05).stepped


def test_its_cache_holds_the_rows_and_not_the_models_context(
    tmp_path: Path, played: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a comparison's shared rollouts, for which nothing is planned."""
    engine = make_torch(make_kind(tmp_path, "qwen2", max_position_embeddings=4096))
    asked = dict[str, Any]()
    with monkeypatch.context() as patch:
        patch.setattr(sampler, "_build", lambda model, **options: asked.update(options))
        sampler.start(engine, [(5,) * 8] * 16, 8, HOT)
    a_row = 2 * 2 * 16 * 4  # keys and values of two layers, two heads of 8 numbers of 4 bytes
    assert asked["kv_cache_memory_bytes"] == 16 * 8 * sampler.BLOCK * a_row


WAYS = (False, True)
"""Whether two processes spread the weights."""


def test_two_processes_sample_as_one(tiny_model: Path, played: None, tmp_path: Path) -> None:
    """The same tokens, and from them the same update."""
    alone = make_torch(tiny_model, SMOOTH)
    took = step(alone, tmp_path)
    ended = finish(launch(tmp_path, [str(tiny_model)], program=__name__))
    assert [code for code, _ in ended] == [0, 0], ended
    for number in range(len(WAYS)):
        folder = tmp_path / "rank-0" / str(number)
        assert np.array_equal(np.load(folder / "tokens.npy"), took.tokens)
        theirs = load_file(folder / WEIGHTS)
        for name, value in load_file(tmp_path / WEIGHTS).items():
            torch.testing.assert_close(theirs[name], value, atol=1e-6, rtol=0)


def step(engine: Any, folder: Path) -> Rollouts:
    """Sample, learn from it, and save all; of two ranks one has no prompt at first."""
    engine.generate(PROMPTS[:1], 3, HOT, seed=2)
    rollouts = engine.generate(PROMPTS, 3, HOT, seed=3, wanted=WANTED)
    update = replace(plain_update(rollouts), old_logp=rollouts.logp)
    assert engine.update(update, 0.05).stepped
    engine.save(folder)
    np.save(folder / "tokens.npy", rollouts.tokens)
    return rollouts


def main() -> None:
    """Its argument is a model."""
    sys.modules |= players()

    ranks = communicator()
    for number, shard in enumerate(WAYS):
        folder = Path(str(number))
        folder.mkdir()
        settings = EngineSettings(backend="torch", device="cpu", threads=1, shard=shard)
        step(build_engine(sys.argv[1], settings, SMOOTH, ranks=ranks), folder)
    ranks.close()


def test_weights_that_did_not_arrive_end_the_run(
    tiny_model: Path, played: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Player, "collective_rpc", lambda *args, **kwargs: None)
    with refused("differ from those of the trained model", kind=RunFailedError):
        make_torch(tiny_model).generate(PROMPTS, 3, HOT, seed=3)


BY_VLLM = ["engine.sampler=vllm", "engine.backend=torch", "engine.device=cpu"]


def test_samples_of_a_cut_distribution_are_not_vllm_s() -> None:
    """Other settings that it cannot follow: test_ranks."""
    with refused("with top-p or top-k"):
        recipe_notes(load_recipe("chain", [*BY_VLLM, "temperature=0.6", "sampling.top_p=0.9"]))


@pytest.mark.skipif(INSTALLED, reason="vLLM is installed")
def test_a_missing_vllm_is_one_sentence() -> None:
    with refused("not installed", hint="[vllm]", kind=EngineMissingError):
        recipe_notes(load_recipe("chain", BY_VLLM))


@pytest.mark.skipif(not INSTALLED, reason="vLLM is not installed")
def test_vllm_itself_samples_the_model(tmp_path: Path) -> None:
    from harness import make_model

    size: dict[str, Any] = {"hidden": 128, "layers": 2, "heads": 4, "intermediate": 128}
    make_model(tmp_path, "torch", vocabulary=64, initializer_range=0.2, **size)
    engine = make_torch(tmp_path, OptimizerSettings())
    rollouts = engine.generate(PROMPTS, 3, HOT, seed=3, wanted=WANTED)
    check(engine, rollouts)
    assert engine.update(plain_update(rollouts), 0.05).stepped
    check(engine, engine.generate(PROMPTS, 3, HOT, seed=3, wanted=WANTED))
