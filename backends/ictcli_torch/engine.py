"""The PyTorch engine behind the protocol of `ictcli.engine`."""

import contextlib
import copy
import json
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from ictcli.algorithm.objective import Objective
from ictcli.engine import passes
from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.models import locate, rope_settings, snapshot
from ictcli.engine.packing import MicroBatch
from ictcli.engine.passes import Update, UpdateStats
from ictcli.engine.sampling import in_passes
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import BoolArray, FloatArray, Rollouts, Sampling, UpdateReport

from . import sample, update
from .device import check_device, choose_device, limit_memory
from .memory import Memory, ran_out
from .model import load, recomputing, stop_ids, text_config
from .optimizer import Optimizer

SMALL_PARAMETERS = 5_000_000
"""Below, several CPU threads wait for each other longer than they compute: one is the default."""

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.safetensors"


class TorchEngine:
    """A Hugging Face causal LM with AdamW. See `ictcli.engine.Engine` for what each verb does."""

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None = None,
        adapters: AdapterSettings | None = None,
    ) -> None:
        self.device = choose_device(settings.device)
        self.settings = settings
        self.memory = Memory(self.device)
        self.budget = Budget(settings, ran_out, self.memory.free)
        check_device(self.device, settings, optimizer, adapted=adapters is not None)
        limit_memory(self.device, settings.memory_limit)
        self.source = locate(model, trains=optimizer is not None)
        self.model, self.tokenizer = load(self.source, settings, self.device)
        small = sum(p.numel() for p in self.model.parameters()) < SMALL_PARAMETERS
        if settings.gradient_checkpointing and not small:
            self.memory.return_blocks()
        if settings.threads or (small and self.device.type == "cpu"):
            torch.set_num_threads(settings.threads or 1)
        config = text_config(self.model)
        self.context = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        self.vocabulary = int(config.vocab_size)
        self.stop_ids = stop_ids(self.model, self.tokenizer)
        self.adapted: Any | None = None
        self.base = ""
        if self.source.adapter or adapters:
            self._adapt(adapters)
        self.reference: Any | None = None
        self.optimizer = Optimizer(self.model, optimizer) if optimizer else None

    def _adapt(self, adapters: AdapterSettings | None) -> None:
        """Put on the adapters that are there already, or new ones to train."""
        from . import adapter  # and peft, which takes seconds

        below = snapshot(self.source.path)
        self.base = weights_fingerprint(below) if below else ""
        if self.source.adapter is not None:
            self.adapted = adapter.read(self.model, self.source.adapter, self.base)
        elif adapters is not None:
            self.adapted = adapter.put_on(self.model, adapters, self.source.path)

    def describe(self) -> dict[str, Any]:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""
        return {
            "engine": "torch",
            "device": str(self.device),
            "device_name": name,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "bits": [4] if self.settings.load_in_4bit else [],
            "parameters": self.model.num_parameters(),
            "trained": sum(p.numel() for p in self.model.parameters() if p.requires_grad),
            "vocabulary": self.vocabulary,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seed: int,
        wanted: Sequence[str] = (),
    ) -> Rollouts:
        numbers = uniforms(seed, len(prompts) * group, sampling.max_tokens)

        def decode(some: Sequence[Sequence[int]], part: FloatArray) -> Rollouts:
            return sample.lockstep(self.model, some, group, sampling, part, wanted)

        def work() -> Rollouts:
            with self._for_sampling():
                return in_passes(prompts, group, self.budget.rows, numbers, decode)

        with self.memory.phase():
            return self.budget.decoding(group, len(numbers), work)

    def _for_sampling(self) -> AbstractContextManager[None]:
        if self.adapted is None:
            return contextlib.nullcontext()
        from . import merged

        return merged.sampling(self.model)

    def logprobs(
        self, rollouts: Rollouts, temperature: float, *, reference: bool = False
    ) -> FloatArray:
        with self._as_reference() if reference else contextlib.nullcontext(self.model) as model:
            return passes.logprobs(
                rollouts,
                self.budget,
                self.vocabulary,
                lambda batch: update.logprobs(model, batch, temperature),
            )

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        return passes.logits_at(
            rollouts,
            where,
            self.budget,
            self.vocabulary,
            lambda batch: update.logits(self.model, batch),
        )

    def keep_reference(self) -> None:
        """With adapters it is the model without them: no second copy."""
        if self.adapted is not None:
            self.reference = self.model
        else:
            self.reference = copy.deepcopy(self.model).requires_grad_(False)

    @contextlib.contextmanager
    def _as_reference(self) -> Generator[Any]:
        """Within, the model that it gives is the reference policy."""
        assert self.reference is not None, "a reference needs keep_reference"
        if self.adapted is None:
            yield self.reference
            return
        from . import adapter

        with adapter.taken_off(self.model):
            yield self.model

    def update(
        self,
        rollouts: Rollouts,
        weights: FloatArray,
        advantage: FloatArray,
        objective: Objective,
        lr: float,
        old_logp: FloatArray | None = None,
        kl_old: FloatArray | None = None,
    ) -> UpdateReport:
        assert self.optimizer is not None, "an engine built without optimizer settings cannot step"
        assert objective.kl == 0 or self.reference is not None, "kl > 0 needs keep_reference"
        batch = Update(rollouts, weights, advantage, objective, old_logp, kl_old)
        with self.memory.phase():
            stats = self.budget.passing(lambda: self._gradient(batch))
            report = stats.report(self.optimizer.clip())
            if report.stepped:
                self.optimizer.step(lr)
            self.optimizer.drop_gradient()
        return report

    def _gradient(self, batch: Update) -> UpdateStats:
        """Leave the gradient of the whole batch with the optimiser; its figures."""
        assert self.optimizer is not None
        self.optimizer.drop_gradient()  # of a pass that was broken off
        objective = batch.objective

        def reference_logp(part: MicroBatch) -> FloatArray:
            with self._as_reference() as model:
                return update.logprobs(model, part, objective.temperature)

        with recomputing(self.model, self.settings.gradient_checkpointing):
            return passes.accumulate(
                batch,
                self.budget,
                self.vocabulary,
                lambda part, terms: update.backward(self.model, part, terms, objective),
                reference_logp,
            )

    def _own(self) -> dict[str, torch.Tensor]:
        """The weights that a run changes, each stored tensor once."""
        if self.adapted is not None:
            return {name: p.data for name, p in self.model.named_parameters() if p.requires_grad}
        return _once(self.model.state_dict())

    def save(self, folder: Path) -> None:
        assert self.optimizer is not None
        about = {"base": self.base} if self.base else None  # one entry: their order is not fixed
        save_file(self._own(), folder / WEIGHTS, metadata=about)
        save_file(self.optimizer.state(), folder / OPTIMIZER)

    def restore(self, folder: Path) -> None:
        assert self.optimizer is not None
        weights = load_file(folder / WEIGHTS)
        other = _base_of(folder / WEIGHTS) not in ("", self.base)
        if other or _shapes(weights) != _shapes(self._own()):
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model it began with",
            )
        state = load_file(folder / OPTIMIZER)
        self.optimizer.check(state)
        self.model.load_state_dict(weights, strict=False)  # tied weights are stored once
        self.optimizer.load(state, weights)

    def export(self, folder: Path, *, packed: bool = False) -> None:
        with self._whole():
            self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        if self.settings.load_in_4bit:
            config.pop("quantization_config", None)  # the weights were unpacked
        path.write_text(json.dumps(config | rope_settings(config), indent=2) + "\n", "utf-8")

    def _whole(self) -> AbstractContextManager[None]:
        if self.adapted is None and not self.settings.load_in_4bit:
            return contextlib.nullcontext()
        from . import merged

        return merged.merged(self.model)

    def export_adapter(self, folder: Path) -> None:
        assert self.adapted is not None, "no adapters were asked for"
        from . import adapter

        adapter.write(folder, self.adapted, self.base)

    def peak_memory(self) -> int:
        return self.memory.peak()


def _once(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Each stored tensor once: tied weights share one, and safetensors refuses shared memory."""
    seen: set[int] = set()
    own: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        if tensor.data_ptr() not in seen:
            seen.add(tensor.data_ptr())
            own[name] = tensor.contiguous()
    return own


def _shapes(weights: dict[str, torch.Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in weights.items()}


def _base_of(file: Path) -> str:
    """The fingerprint of the weights below saved adapters; empty where all weights were saved."""
    with safe_open(file, "pt") as opened:
        return (opened.metadata() or {}).get("base", "")


build = TorchEngine
"""Entry point `ictcli.engines`."""
