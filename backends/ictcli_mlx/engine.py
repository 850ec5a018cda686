"""The MLX engine: implements the protocol of `ictcli.engine`."""

import contextlib
from collections.abc import Generator
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_unflatten
from mlx_lm.utils import get_total_parameters, save_config, save_model

from ictcli.engine.budget import is_full
from ictcli.engine.core import EngineCore
from ictcli.engine.model_files import GENERATION, take, write_tokenizer
from ictcli.engine.models import stop_ids, with_dtype
from ictcli.errors import UserError
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings

from . import adapter, sample
from .device import Memory, choose_device
from .files import flat, read_arrays, write_arrays
from .model import cast, is_quantised, load, model_dtype, restore_layout, vocabulary_of
from .optimizer import Optimizer
from .passes import Passes


class MlxEngine(EngineCore):
    """An mlx-lm model with AdamW. `ictcli.engine.Engine` documents the methods."""

    read_arrays, write_arrays = staticmethod(read_arrays), staticmethod(write_arrays)

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None = None,
        adapters: NewAdapters | None = None,
    ) -> None:
        self.device = choose_device(settings.device)
        self.compiled = settings.compile == "on" or (
            settings.compile == "auto" and self.device.type == mx.gpu
        )
        super().__init__(model, settings, optimizer, Memory(settings.memory_limit), is_full)
        loaded = load(self.source, settings, self.device)
        self.model, self.tokenizer, self.config, self.folder, self.context = loaded
        self.stop_ids = stop_ids(self.tokenizer, self.config.get("eos_token_id"))
        self.vocabulary = vocabulary_of(self.config, self.folder)
        self.memory.watch("Loading the model", "use a smaller or a 4-bit model")
        self.adapt(adapters)
        if optimizer and self.adapted is None:
            if is_quantised(self.model):
                raise UserError(
                    f"{self.source.path} is quantised. Such weights cannot be trained.",
                    "adapter.kind=lora trains low-rank adapters instead",
                )
            self.model.unfreeze()
        if optimizer:
            self.optimizer = Optimizer(self.model, optimizer, self.memory, compiled=self.compiled)
        self.lockstep = partial(
            sample.lockstep, self.model, memory=self.memory, compiled=self.compiled
        )
        self.passes = Passes(self)

    def about(self) -> dict[str, Any]:
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

    def adapters(self) -> Any:
        return adapter

    def for_sampling(self, tokens: int) -> contextlib.AbstractContextManager[None]:
        """Add the adapters of a float32 model to its weights: an adapted layer launches five
        kernels, a plain layer one. In 16 bits this would round away an adapter's first steps."""
        exact = model_dtype(self.model) == mx.float32 and not is_quantised(self.model)
        if self.adapted is None or not exact:
            return contextlib.nullcontext()
        return adapter.fused(self.model)

    def compute_in_float32(self) -> None:
        cast(self.model, mx.float32)

    def kept_weights(self) -> Any:
        """Return the trained weights uncopied: an update replaces them by new arrays."""
        return self.model.trainable_parameters()

    @contextlib.contextmanager
    def swapped(self, weights: Any) -> Generator[None]:
        policy = self.model.trainable_parameters()
        self.model.update(weights)
        try:
            yield
        finally:
            self.model.update(policy)

    def trained_weights(self) -> dict[str, mx.array]:
        return flat(self.model.trainable_parameters())

    def take(self, weights: dict[str, mx.array], state: dict[str, mx.array]) -> None:
        if self.optimizer is not None:
            return self.optimizer.load(state, weights)
        trained = self.trained_weights()
        values = [(name, w.astype(trained[name].dtype)) for name, w in weights.items()]
        self.model.update(tree_unflatten(values))
        return None

    def export(self, folder: Path) -> None:
        config, kind = dict(self.config), self.config.get("model_type", "")
        config.pop("quantization", None)
        config.pop("quantization_config", None)
        with adapter.whole(self.model, kind):
            save_model(folder, self.model)
            written = str(model_dtype(self.model)).removeprefix("mlx.core.")
        restore_layout(folder, like=self.folder)
        save_config(with_dtype(config, written), folder / "config.json")
        write_tokenizer(self.tokenizer, self.folder, folder)
        take(self.folder, folder, [GENERATION])

    def export_adapter(self, folder: Path) -> None:
        adapter.write(folder, self.trained_weights(), self.adapted | {"base": self.base})


build = MlxEngine
