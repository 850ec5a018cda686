"""The MLX engine behind the protocol of `ictcli.engine`."""

import contextlib
import shutil
from collections.abc import Generator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_unflatten
from mlx_lm.utils import get_total_parameters, save_config, save_model

from ictcli.algorithm.objective import Objective
from ictcli.engine import passes
from ictcli.engine.budget import Budget
from ictcli.engine.checksums import weights_fingerprint
from ictcli.engine.models import locate
from ictcli.engine.passes import Update, UpdateStats
from ictcli.engine.sampling import in_passes
from ictcli.errors import UserError
from ictcli.recipe.tables import AdapterSettings, EngineSettings, OptimizerSettings
from ictcli.seeds import uniforms
from ictcli.types import BoolArray, FloatArray, Rollouts, Sampling, UpdateReport

from . import adapter, merged, sample
from .device import choose_device
from .files import flat, number, read_about, read_arrays, write_arrays
from .launch import launched
from .memory import Memory, ran_out
from .model import (
    find_heads,
    is_quantised,
    load,
    model_dtype,
    restore_layout,
)
from .optimizer import Optimizer, norm
from .update import Passes

WEIGHTS, OPTIMIZER = "weights.safetensors", "optimizer.safetensors"


class MlxEngine:
    """An mlx-lm model with AdamW. See `ictcli.engine.Engine` for what each verb does."""

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None = None,
        adapters: AdapterSettings | None = None,
    ) -> None:
        if optimizer is not None and optimizer.kind != "adamw":
            raise UserError(
                f"optimizer.kind={optimizer.kind} is the torch engine's, on a CUDA GPU.",
                "optimizer.kind=adamw",
            )
        self.device = choose_device(settings.device)
        self.settings = settings
        self.compiled = settings.compile == "on" or (
            settings.compile == "auto" and self.device.type == mx.gpu
        )
        self.memory = Memory(settings.memory_limit)
        self.budget = Budget(settings, ran_out, self.memory.free)
        self.source = locate(model, trains=optimizer is not None)
        self.loaded = load(self.source, settings, self.device)
        self.model, self.tokenizer = self.loaded.model, self.loaded.tokenizer
        self.stop_ids = self.loaded.stop_ids
        self.context = self.loaded.context
        self.vocabulary = self.loaded.vocabulary
        self.memory.watch("Loading the model", "take a smaller or a 4-bit model")
        self._takes_mixed: bool | None = None
        self.adapter: dict[str, Any] | None = None
        self._adapt(adapters, trains=optimizer is not None)
        self.reference: Any | None = None
        self.optimizer = (
            Optimizer(self.model, optimizer, compiled=self.compiled) if optimizer else None
        )
        self.passes = Passes(
            self.model,
            find_heads(self.model),
            self.vocabulary,
            self.budget,
            self.memory,
            recompute=settings.gradient_checkpointing,
            compiled=self.compiled,
        )

    def _adapt(self, adapters: AdapterSettings | None, *, trains: bool) -> None:
        """Put on the adapters that are there already, or new ones to train."""
        if self.source.adapter is not None:
            adapter.read(self.model, self.source.adapter, weights_fingerprint(self.loaded.folder))
        elif adapters is not None:
            about = adapter.put_on(self.model, adapters)
            base = weights_fingerprint(self.loaded.folder)
            self.adapter = {"model": self.source.path, "base": base, **about}
        elif trains and is_quantised(self.model):
            raise UserError(
                f"{self.source.path} is quantised, and packed weights cannot be trained.",
                "adapter.kind=lora trains low-rank adapters on top of them",
            )
        elif trains:
            self.model.unfreeze()

    def describe(self) -> dict[str, Any]:
        bits = {module.bits for module in self.model.modules() if hasattr(module, "bits")}
        return {
            "engine": "mlx",
            "device": self.device.type.name,
            "device_name": mx.device_info().get("device_name", ""),
            "dtype": str(model_dtype(self.model)).removeprefix("mlx.core."),
            "bits": sorted(bits),
            "parameters": get_total_parameters(self.model),
            "trained": sum(x.size for x in flat(self.model.trainable_parameters()).values()),
            "vocabulary": self.vocabulary,
            "compiled": self.compiled,
            "mlx": version("mlx"),
            "mlx_lm": version("mlx-lm"),
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
        return self.sample(prompts, group, sampling, numbers, wanted)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        numbers: FloatArray,
        wanted: Sequence[str],
    ) -> Rollouts:
        """`generate` with the numbers (B, T) that decide its draws.

        Adapters of a float32 model are fused meanwhile: an adapted layer is five kernels, a plain
        one is one. In 16 bits the sum would be rounded, and an adapter's first steps lost.
        """
        adapted = self.adapter is not None or self.source.adapter is not None
        exact = adapted and model_dtype(self.model) == mx.float32 and not is_quantised(self.model)
        mixed = self._mixed(prompts)

        def decode(some: Sequence[Sequence[int]], part: FloatArray) -> Rollouts:
            rollouts = sample.lockstep(
                self.model, some, group, sampling, part, wanted, self.memory, compiled=self.compiled
            )
            self.memory.free()  # the next pass has caches of other sizes
            return rollouts

        def work() -> Rollouts:
            return in_passes(prompts, group, self.budget.rows, numbers, decode, mixed=mixed)

        with merged.fused(self.model, packed=True) if exact else contextlib.nullcontext():
            return self.budget.decoding(group, len(numbers), work)

    def _mixed(self, prompts: Sequence[Sequence[int]]) -> bool:
        """Whether prompts may be decoded side by side whatever their lengths."""
        return len({len(prompt) for prompt in prompts}) == 1 or self._probe()

    def _probe(self) -> bool:
        if self._takes_mixed is None:
            self._takes_mixed = sample.takes_mixed_lengths(self.model, self.vocabulary, self.memory)
        return self._takes_mixed

    def logprobs(
        self, rollouts: Rollouts, temperature: float, *, reference: bool = False
    ) -> FloatArray:
        with self._as_reference() if reference else contextlib.nullcontext():
            return passes.logprobs(
                rollouts,
                self.budget,
                self.vocabulary,
                lambda batch: self.passes.logprobs(batch, temperature),
            )

    def logits(self, rollouts: Rollouts, where: BoolArray) -> FloatArray:
        return passes.logits_at(rollouts, where, self.budget, self.vocabulary, self.passes.logits)

    def keep_reference(self) -> None:
        """Arrays never change: an update makes new ones, and these stay."""
        self.reference = {} if self.adapter else self.model.trainable_parameters()

    @contextlib.contextmanager
    def _as_reference(self) -> Generator[None]:
        """Within, the model is the reference policy."""
        assert self.reference is not None, "a reference needs keep_reference"
        if self.adapter is not None:
            with adapter.taken_off(self.model):
                yield
            return
        now = self.model.trainable_parameters()
        self.model.update(self.reference)
        try:
            yield
        finally:
            self.model.update(now)

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
        gradient, stats = self._gradient(batch)
        grad_norm = 0.0 if gradient is None else number(norm(gradient))
        report = stats.report(grad_norm)
        held = [gradient]
        del gradient
        if report.stepped:
            self.optimizer.step(held, grad_norm, lr)
            self.memory.watch("The optimiser's step", "train adapters: adapter.kind=lora")
        self.memory.free()  # sampling needs buffers of other sizes
        return report

    def _gradient(self, batch: Update) -> tuple[Any, UpdateStats]:
        """The gradient of the whole batch, and its figures."""
        return self.budget.passing(lambda: self.passes.gradient(batch, self._as_reference))

    def _own(self) -> dict[str, mx.array]:
        """The weights that a run changes."""
        return flat(self.model.trainable_parameters())

    def save(self, folder: Path) -> None:
        assert self.optimizer is not None
        base = self.adapter["base"] if self.adapter else ""
        write_arrays(folder / WEIGHTS, self._own(), base=base)
        write_arrays(folder / OPTIMIZER, self.optimizer.state())

    def restore(self, folder: Path) -> None:
        assert self.optimizer is not None
        self._probe()  # of the weights the run began with, whenever it is resumed
        weights, state = (read_arrays(folder / name) for name in (WEIGHTS, OPTIMIZER))
        mx.eval(weights, state)  # all is read before anything is changed
        below = read_about(folder / WEIGHTS, "base")
        other = self.adapter is not None and below not in ("", self.adapter["base"])
        if other or _shapes(weights) != _shapes(self._own()):
            raise UserError(
                f"{folder} holds the weights of another model, or another dtype's.",
                "resume with the model and engine.dtype it began with",
            )
        self.model.update(tree_unflatten(list(weights.items())))
        self.optimizer.load(state)

    def export(self, folder: Path, *, packed: bool = False) -> None:
        config = dict(self.loaded.config)
        if not packed:
            config.pop("quantization", None)
            config.pop("quantization_config", None)
        with merged.fused(self.model, packed=packed):
            save_model(folder, self.model)
        restore_layout(folder, like=self.loaded.folder)
        save_config(config, folder / "config.json")
        self.tokenizer.save_pretrained(folder)
        settings = self.loaded.folder / "generation_config.json"
        if settings.is_file():
            shutil.copy(settings, folder)

    def export_adapter(self, folder: Path) -> None:
        assert self.adapter is not None, "no adapters were asked for"
        adapter.write(folder, self.model.trainable_parameters(), self.adapter)

    def peak_memory(self) -> int:
        return max(self.memory.peak, mx.get_peak_memory())


def _shapes(weights: dict[str, mx.array]) -> dict[str, tuple[Any, ...]]:
    return {name: (*value.shape, value.dtype) for name, value in weights.items()}


def build(
    model: str,
    settings: EngineSettings,
    optimizer: OptimizerSettings | None = None,
    adapters: AdapterSettings | None = None,
) -> MlxEngine:
    """Entry point `ictcli.engines`: the engine with `model` loaded; on rank 0 of a launch of
    several processes, the one that leads the others."""
    if launched():
        from .distributed import lead

        return lead(model, settings, optimizer, adapters)
    return MlxEngine(model, settings, optimizer, adapters)
