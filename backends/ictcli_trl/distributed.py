"""The torch engine on TRL's GRPOTrainer and accelerate: one process, or many under
`accelerate launch` or torchrun (`ictcli.engine.distributed`).

accelerate spreads weights, gradients and moments over processes, by DistributedDataParallel or
FSDP2, and TRL computes the loss. Every rank samples and evaluates its share of the rows as the
torch engine does, with weights that are put together for as long as that takes. So a run of one
process is a run of the torch engine, and one of several differs from it by rounding.
"""

import contextlib
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from importlib.metadata import version
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import numpy as np
from ictcli_torch.model import recomputing
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from ictcli.algorithm.objective import k3
from ictcli.engine.communicator import Message
from ictcli.engine.distributed import SUMMED, plain, rollouts_of
from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update, UpdateStats
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.types import LOGP, BoolArray, FloatArray, IntArray, Rollouts

from . import hooks
from .communicator import TorchCommunicator
from .inputs import loss_inputs
from .launch import configuration, shards
from .optimizer import Optimizer
from .persistence import Persistent
from .tensors import in_bfloat16, skeleton, whole


class TrlEngine(Persistent):
    """An engine of one rank."""

    processes: TorchCommunicator
    optimizer: Any

    def __init__(
        self,
        processes: TorchCommunicator,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None = None,
        adapters: AdapterSettings | None = None,
    ) -> None:
        self.processes, self.sharded = processes, shards() > 1
        device = processes.device.type
        if settings.device.partition(":")[0] not in ("auto", device):
            raise UserError(
                f"engine.device is {settings.device}, and accelerate's is {device}.",
                "engine.device=auto; ACCELERATE_USE_CPU=true has accelerate take the CPU",
            )
        wide = optimizer is not None and (adapters is None or self.sharded)
        bfloat16 = settings.dtype == "bfloat16" or (settings.dtype == "auto" and device == "cuda")
        self.mixed = wide and bfloat16
        loaded = {"device": device, "dtype": "float32" if wide else settings.dtype}
        loaded["compile"] = "off"  # a graph would keep where the weights lay before
        if self.sharded:  # every rank reads the model: accelerate launch has rank 0 alone read it
            os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
            os.environ.setdefault("FSDP_AUTO_WRAP_POLICY", "TRANSFORMER_BASED_WRAP")  # by block
        with processes.together():
            super().__init__(model, settings.model_copy(update=loaded), optimizer, adapters)

    def make_optimizer(self, settings: OptimizerSettings) -> Optimizer:
        module = self.adapted or self.model
        copied = skeleton(module, self.device) if self.mixed or self.sharded else module
        trained = self.model
        self.trainer, self.accelerator = hooks.make_trainer(
            trained,
            self.tokenizer,
            cpu=self.device.type == "cpu",
            bfloat16=self.mixed,
            vllm=hooks.vllm_settings(self.settings),
        )
        if self.sharded and self.device.type == "cpu":
            hooks.shard_on_cpu(self.accelerator)
        weights = dict(trained.named_parameters())
        adapters = sum(p.numel() for name, p in weights.items() if "lora_" in name)
        steps = sum(p.numel() for p in weights.values() if p.requires_grad)
        self.numbers = {"parameters": trained.num_parameters() - adapters, "trained": steps}
        optimizer = Optimizer(trained, settings, self.accelerator)
        self.trained: Any = self.accelerator.unwrap_model(optimizer.model)
        if copied is not module:
            if self.adapted is not None:
                self.adapted = copied
            self.model = copied.get_base_model() if self.adapted is not None else copied
            if self.mixed:
                in_bfloat16(self.model)
        return optimizer

    @property
    def parallelism(self) -> str:
        if self.processes.size == 1:
            return "none"
        return "fsdp2" if self.sharded else "ddp"

    def describe(self) -> dict[str, Any]:
        dtype = {"dtype": "bfloat16"} if self.mixed else {}
        about = super().describe() | (self.numbers if self.optimizer else {}) | dtype
        libraries = {name: version(name) for name in ("trl", "accelerate")}
        launch = {"accelerate_config": configuration(self.accelerator)} if self.optimizer else {}
        return about | {"engine": "trl", "parallelism": self.parallelism} | libraries | launch

    @contextlib.contextmanager
    def _holding(self, weights: Mapping[str, Tensor]) -> Generator[None]:
        """Within, the model that samples and evaluates has these weights, put together."""
        held = dict(self.model.named_parameters())
        before = {name: p.data for name, p in held.items()}
        try:
            for name, p in held.items():
                p.data = whole(weights[name].detach()).to(p.dtype)
            yield
        finally:
            for name, p in held.items():
                p.data = before[name]

    def _gathered(self) -> AbstractContextManager[None]:
        """Within, that model has the weights that are trained. All ranks have to be here."""
        if self.optimizer is None or self.model is self.trained:
            return nullcontext()
        return self._holding(dict(self.trained.named_parameters()))

    def _generate(self, *arguments: Any, **options: Any) -> Rollouts:
        with self._gathered():
            return super()._generate(*arguments, **options)

    def keep_reference(self) -> None:
        """With adapters it is the model without them; else a copy in the parts of the weights."""
        self.tell("keep_reference")
        if self.adapted is not None:
            self.reference = self.model
        else:
            kept = self.trained.named_parameters()
            self.reference = {name: p.detach().clone() for name, p in kept}

    @contextlib.contextmanager
    def as_reference(self) -> Generator[None]:
        assert self.reference is not None, "a reference needs keep_reference"
        adapted = self.adapted is not None
        with super().as_reference() if adapted else self._holding(self.reference):
            yield

    def score(
        self,
        rollouts: Rollouts,
        wanted: Sequence[str],
        temperature: float = 1.0,
        *,
        reference: bool = False,
        solution: IntArray | None = None,
    ) -> dict[str, FloatArray]:
        if tuple(wanted) != (LOGP,):
            with self._alone():
                return super().score(rollouts, wanted, temperature, solution=solution)
        about, arrays = plain(replace(rollouts, stats={}))
        how = {"temperature": temperature, "reference": reference}
        with self.processes.together():
            self.tell("logprobs", about | how | self.budgeted(), arrays)
            return {LOGP: self._logprobs(rollouts, temperature, reference)}

    def _logprobs(self, rollouts: Rollouts, temperature: float, reference: bool) -> FloatArray:
        mine = self.rank_of(rollouts.lengths) == self.processes.rank
        own = replace(rollouts, lengths=np.where(mine, rollouts.lengths, 0))
        with self._gathered():
            values = super().score(own, (LOGP,), temperature, reference=reference)[LOGP]
        return _summed(self.processes.gather(("logp", {}, {"logp": values})))

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        with self._alone():
            return super().logits(rollouts, where)

    @contextlib.contextmanager
    def _alone(self) -> Generator[None]:
        """Within, rank 0 has the weights that are trained, and works with them by itself."""
        with self.processes.together():
            self.tell("gather")
            with self._gathered():
                yield

    def gradient(self, update: Update) -> UpdateStats:
        """The whole batch's gradient and figures: each rank passes over its rows, as often as the
        one with the most passes."""
        share = self.share_of(update)
        hooks.set_objective(self.trainer, self.trained, update.objective)
        if self.processes.size == 1:
            return self.budget.passing(lambda: self._passes(share, passes=None))
        own = sum(1 for _ in self._packed(share))
        counts = self.processes.gather(("passes", {"count": own}, {}))
        stats = self._passes(share, max(about["count"] for _, about, _ in counts))
        figures = {name: float(getattr(stats, name)) for name in (*SUMMED, "gap")}
        parts = self.processes.gather(("stats", figures, {"logp": stats.logp}))
        summed = {name: sum(about[name] for _, about, _ in parts) for name in SUMMED}
        gap = max(about["gap"] for _, about, _ in parts)
        return UpdateStats(_summed(parts), gap=gap, **summed)

    def _packed(self, update: Update) -> Iterator[MicroBatch]:
        return self.budget.micro_batches(update.rollouts, update.trained, share=False)

    def _passes(self, update: Update, passes: int | None) -> UpdateStats:
        """Leave the gradient of this rank's rows with the optimiser. A rank with fewer `passes`
        than others joins in theirs with nothing of its own."""
        objective, model = update.objective, self.optimizer.model
        self.optimizer.drop_gradient()
        reference = self._reference(update) if objective.kl > 0 else None
        stats = UpdateStats(np.zeros(update.rollouts.tokens.shape, dtype=np.float32))
        batches = self._packed(update)
        padded = batches if passes is None else chain(batches, repeat(None))
        for number, batch in enumerate(padded, start=1):
            if passes is not None and number > passes:
                break
            waits = isinstance(model, DistributedDataParallel) and number != passes
            cap = self.settings.importance_cap
            inputs, places = loss_inputs(update, batch, reference, self.device, cap)
            with (
                self.accelerator.no_sync(model) if waits else nullcontext(),
                recomputing(self.trained, self.settings.gradient_checkpointing),
            ):
                loss = hooks.loss(self.trainer, model, inputs)
                self.accelerator.backward(loss)
            if batch is not None:
                logp = self.trainer.logp[places].float().cpu().numpy()
                kl = 0.0 if reference is None else _k3(logp, batch.take(reference))
                figures = float(loss.detach()) / self.processes.size, logp, kl
                stats.add(batch, update.tokenwise(batch), objective, figures)
        return stats

    def _reference(self, update: Update) -> FloatArray:
        """(B, T) log-probabilities of the reference at the trained tokens of this rank."""
        values = np.zeros(update.rollouts.tokens.shape, dtype=np.float32)
        with self._gathered() if self.adapted is not None else nullcontext(), self.as_reference():
            for batch in self._micro_batches(update.rollouts, update.trained):
                found = self.logp(batch, update.objective.temperature)
                values[batch.rows, batch.positions] = found
        return values

    def trained_weights(self) -> dict[str, Tensor]:
        own = self.trained.named_parameters()
        return {name: p.data for name, p in own if p.requires_grad or self.adapted is None}

    def export(self, folder: Path, *, packed: bool = False) -> None:
        with self._alone():
            super().export(folder, packed=packed)

    def export_adapter(self, folder: Path) -> None:
        with self._alone():
            super().export_adapter(folder)

    def obey(self, verb: str, arguments: dict[str, Any], arrays: dict[str, np.ndarray]) -> bool:
        if verb == "logprobs":
            how = arguments["temperature"], arguments["reference"]
            with self.processes.together():
                self._logprobs(rollouts_of(arguments, arrays), *how)
        elif verb == "gather":
            with self.processes.together(), self._gathered():
                pass
        else:
            return super().obey(verb, arguments, arrays)
        return True


def _summed(messages: list[Message]) -> FloatArray:
    """(B, T): each rank has the log-probabilities of its rows, and 0 elsewhere."""
    return np.sum([arrays["logp"] for _, _, arrays in messages], axis=0)


def _k3(logp: FloatArray, reference: FloatArray) -> float:
    return float(k3(np, logp, reference).sum())
