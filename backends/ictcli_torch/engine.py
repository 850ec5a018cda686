"""The PyTorch engine behind the protocol of `ictcli.engine`."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

from ictcli.algorithm.objective import Objective
from ictcli.errors import UserError
from ictcli.memory import peak_rss
from ictcli.models import rope_settings
from ictcli.settings import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.types import BoolArray, FloatArray, Rollouts, Sampling, UpdateReport

from . import sample, update
from .model import choose_device, load, stop_ids, text_config
from .optimizer import Optimizer

SMALL_PARAMETERS = 5_000_000
"""Below, several CPU threads wait for each other longer than they compute: one is the default."""

SAMPLING_GAP, ROUNDED_GAP = 0.01, 0.5
"""Mean |log p| a token that sampling and evaluation may differ by, in float32 and in 16 bits: far
above what rounding makes, and below what a lost prefix does."""

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.safetensors"


class TorchEngine:
    """A Hugging Face causal LM with AdamW. See `ictcli.engine.Engine` for what each verb does."""

    def __init__(
        self, model: str, settings: EngineSettings, optimizer: OptimizerSettings | None = None
    ) -> None:
        self.device = choose_device(settings.device)
        self.settings = settings
        self.model, self.tokenizer = load(model, settings, self.device)
        small = sum(p.numel() for p in self.model.parameters()) < SMALL_PARAMETERS
        if settings.threads or (small and self.device.type == "cpu"):
            torch.set_num_threads(settings.threads or 1)
        config = text_config(self.model)
        self.context = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)
        self.stop_ids = stop_ids(self.model, self.tokenizer)
        self._check_sampling(model)
        self.reference: Any | None = None
        self.optimizer = Optimizer(self.model, optimizer) if optimizer else None

    def _check_sampling(self, model: str) -> None:
        """Refuse a model that samples from another distribution than it evaluates: some do not know
        this kind of cache, or padding, and say nothing. A few made-up tokens tell."""
        prompts, sampling = ((1, 2, 3), (4,)), Sampling(4)
        try:
            drawn = self.generate(prompts, 2, sampling, 0)
            gap = float(np.abs(drawn.logp - self.logprobs(drawn, 1.0)).mean())
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a model of another kind raises
            reason = " ".join(str(error).split())[:300].rstrip(".")
            raise UserError(
                f"The model {model} cannot be sampled by the torch engine: {reason}.",
                "--backend mlx may know it",
            ) from error
        if gap > (SAMPLING_GAP if self.model.dtype == torch.float32 else ROUNDED_GAP):
            raise UserError(
                f"The model {model} does not sample what it evaluates: log-probabilities differ by "
                f"{gap:.2g} nats a token.",
                "its cache is of a kind the torch engine does not know; --backend mlx may",
            )

    def describe(self) -> dict[str, Any]:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""
        return {
            "engine": "torch",
            "device": str(self.device),
            "device_name": name,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "vocabulary": int(text_config(self.model).vocab_size),
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
        return sample.generate(
            self.model, prompts, group, sampling, seed, wanted, self.settings.rows
        )

    def logprobs(
        self, rollouts: Rollouts, temperature: float, *, reference: bool = False
    ) -> FloatArray:
        model = self.reference if reference else self.model
        budget = self.settings.micro_tokens
        return update.logprobs(model, rollouts, temperature, budget, rollouts.valid)

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        return update.logits_at(self.model, rollouts, where, self.settings.micro_tokens)

    def keep_reference(self) -> None:
        self.reference = copy.deepcopy(self.model).requires_grad_(False)

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
        self.optimizer.drop_gradient()  # of a pass that was broken off
        tally = update.backward(
            self.model,
            self.reference,
            rollouts,
            weights,
            advantage,
            objective,
            self.settings.micro_tokens,
            old_logp,
            kl_old,
        )
        return update.step(self.optimizer, lr, tally)

    def save(self, folder: Path) -> None:
        assert self.optimizer is not None
        save_file(_own(self.model.state_dict()), folder / WEIGHTS)
        save_file(self.optimizer.state(), folder / OPTIMIZER)

    def restore(self, folder: Path) -> None:
        assert self.optimizer is not None
        weights = load_file(folder / WEIGHTS)
        own = _own(self.model.state_dict())
        if _shapes(weights) != _shapes(own):
            raise UserError(
                f"{folder} holds the weights of another model.",
                "resume with the model it began with",
            )
        state = load_file(folder / OPTIMIZER)
        self.model.load_state_dict(weights, strict=False)  # tied weights are stored once
        self.optimizer.load(state)

    def export(self, folder: Path, *, packed: bool = False) -> None:
        self.model.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps(config | rope_settings(config), indent=2) + "\n", "utf-8")

    def export_adapter(self, folder: Path) -> None:
        raise UserError("The torch engine has no adapters to write.", "export writes the model")

    def peak_memory(self) -> int:
        if self.device.type == "cuda":
            return torch.cuda.max_memory_allocated(self.device)
        return peak_rss()


def _own(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
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


def build(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapter: AdapterSettings | None = None,
) -> TorchEngine:
    """Entry point `ictcli.engines`: the engine with `model` loaded."""
    for key in ("gradient_checkpointing", "memory_limit"):
        if getattr(settings, key):
            raise UserError(f"The torch engine has no engine.{key}.", "--backend mlx has one")
    if adapter is not None and adapter.kind != "none":
        raise UserError(
            "The torch engine trains all weights; adapters are trained by the mlx engine.",
            "--backend mlx, or adapter.kind=none",
        )
    return TorchEngine(model, settings, optimizer)
