"""The PyTorch engine: implements the protocol of `ictcli.engine`."""

import contextlib
import copy
import json
from collections.abc import Generator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from ictcli.engine.core import EngineCore
from ictcli.engine.model_files import write_tokenizer
from ictcli.engine.models import snapshot, stop_ids, with_dtype
from ictcli.engine.older import older_names
from ictcli.engine.sampling import join
from ictcli.engine.shape import read_context
from ictcli.recipe.tables import EngineSettings, NewAdapters, OptimizerSettings
from ictcli.types import Rollouts, Sampling

from .cpu import arranged, in_whole, kernels_of, pack
from .decode import FixedDecoder, GrowingDecoder, SharedDecoder, has_fixed_step
from .device import Memory, check_device, choose_device, limit_memory, ran_out
from .model import load, text_config
from .optimizer import Optimizer
from .passes import Passes, asked_of, shares_prompts
from .plan import SMALL, WORTH_ARRANGING, choose_joined
from .sample import lockstep


class TorchEngine(EngineCore):
    """A Hugging Face causal LM with AdamW. `ictcli.engine.Engine` documents the methods."""

    read_arrays = staticmethod(load_file)
    root: Any = None
    """The module that FSDP wraps around the trained model, if its weights are sharded."""
    vllm: Any = None
    """The vLLM sampler (`engine.sampler = "vllm"`), built at first use."""

    def __init__(
        self,
        model: str,
        settings: EngineSettings,
        optimizer: OptimizerSettings | None = None,
        adapters: NewAdapters | None = None,
    ) -> None:
        self.device = choose_device(settings.device)
        check_device(self.device, settings, optimizer, adapted=adapters is not None)
        limit_memory(self.device, settings.memory_limit)
        super().__init__(model, settings, optimizer, Memory(self.device), ran_out)
        self.model, self.tokenizer = load(self.source, settings, self.device)
        self.small = sum(p.numel() for p in self.model.parameters()) < SMALL
        self.memory.small = self.small
        if settings.gradient_checkpointing and not self.small:
            self.memory.return_blocks()
        if settings.threads or (self.small and self.device.type == "cpu"):
            torch.set_num_threads(settings.threads or 1)
        config = text_config(self.model)
        self.context = read_context(config.to_dict(), settings.context)
        self.vocabulary = int(config.vocab_size)
        self.stop_ids = stop_ids(self.tokenizer, self.model.generation_config.eos_token_id)
        self.adapt(adapters)
        added = sum(p.numel() for name, p in self.model.named_parameters() if "lora_" in name)
        trained = (p.numel() for p in self.model.parameters() if p.requires_grad)
        self.counts = {"parameters": self.model.num_parameters() - added, "trained": sum(trained)}
        shares = shares_prompts(self.model) and all(asked_of(self.model))  # before sharding
        once = shares and self.device.type == "cpu" and not self.small  # small: calls dominate
        plain = SharedDecoder if once else GrowingDecoder
        self.optimizer = self.make_optimizer(optimizer) if optimizer else None
        self.pack = cache(partial(pack, self.model))  # packs once, at the first call
        self.frozen = not optimizer or self.adapted is not None
        parameters = self.counts["parameters"]
        self.joined = choose_joined(self.device.type, adapters, parameters)
        if self.optimizer and self.frozen:
            self.pack()
        self.compiled = (
            self.device.type == "cuda" and settings.compile != "off" and has_fixed_step(self.model)
        )
        decoder = FixedDecoder if self.compiled else plain
        self.lockstep = partial(lockstep, self.model, decoder=decoder)
        self.passes = Passes(self)

    def make_optimizer(self, settings: OptimizerSettings) -> Optimizer:
        """Return the optimiser of the model's weights or, if it has any, of its adapters."""
        return Optimizer(self.model, settings)

    def about(self) -> dict[str, Any]:
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else ""
        return {
            "engine": "torch",
            "device": str(self.device),
            "device_name": name,
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "kernels": kernels_of(self.settings.kernels) if self.device.type == "cpu" else "",
            "compiled": self.compiled,
            "bits": [4] if self.settings.load_in_4bit else [],
            **self.counts,
            "vocabulary": self.vocabulary,
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        }

    def adapters(self) -> Any:
        from . import adapter  # imports peft, which takes seconds

        return adapter

    @contextlib.contextmanager
    def for_sampling(self, tokens: int) -> Generator[None]:
        with contextlib.ExitStack() as stack:
            if self.adapted is not None:
                stack.enter_context(self.adapters().sampling(self.model))
            if tokens >= WORTH_ARRANGING and not self.settings.gradient_checkpointing:
                if self.frozen:
                    self.pack()
                stack.enter_context(arranged(self.model))
            yield

    def sample(
        self, prompts: Any, group: int, sampling: Sampling, *arguments: Any, **options: Any
    ) -> Rollouts:
        if sampling.sampler != "vllm":
            return super().sample(prompts, group, sampling, *arguments, **options)
        from . import vllm

        return vllm.sample(self, prompts, group, sampling, *arguments, **options)

    def draw(
        self,
        prompts: Sequence[Sequence[int]],
        group: int,
        sampling: Sampling,
        seeds: Sequence[int],
    ) -> Rollouts:
        """Return rollouts, without statistics, that vLLM samples with the current weights. Each
        rank samples its share of the prompts."""
        from . import vllm

        share = slice(*self.prompts_of(len(prompts)))
        with self._phase():
            self.vllm = self.vllm or vllm.start(self, prompts[share], group, sampling)
            self.vllm.load(self)
            drawn = vllm.draw(self.vllm, prompts[share], group, sampling, seeds[share])
        return join(self.ranks.gather(drawn))

    @contextlib.contextmanager
    def merged(self, *, exactly: bool = False) -> Generator[None]:
        """Inside the context, give the model plain weights: adapters merged, no weight in 4 bits or
        in FBGEMM's layout. `exactly`: in a type that represents the trained weights."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(in_whole(self.model))
            if self.adapted is not None or self.settings.load_in_4bit:
                from . import merge  # imports peft

                stack.enter_context(merge.merged(self.model, exactly=exactly))
            yield

    @staticmethod
    def write_arrays(path: Path, arrays: dict[str, torch.Tensor], **about: str) -> None:
        save_file(arrays, path, metadata=about or None)

    def compute_in_float32(self) -> None:
        self.model.float()

    def kept_weights(self) -> Any:
        return copy.deepcopy(self.model).requires_grad_(False)

    @contextlib.contextmanager
    def swapped(self, weights: Any) -> Generator[None]:
        self.passes.model = weights
        try:
            yield
        finally:
            self.passes.model = self.model

    def sum_gradient(self) -> None:
        for master in self.optimizer.masters.values():
            if master.grad is None:
                master.grad = torch.zeros_like(master)
        self.ranks.sum([master.grad for master in self.optimizer.masters.values()])

    def align(self) -> None:
        if self.ranks.size > 1:
            self.take(*map(self.ranks.spread, (self.trained_weights(), self.optimizer.state())))

    def trained_weights(self) -> dict[str, torch.Tensor]:
        if self.adapted is not None:
            return {name: p.data for name, p in self.model.named_parameters() if p.requires_grad}
        state = self.model.state_dict(keep_vars=True)
        names = {id(tensor): name for name, tensor in reversed(state.items())}  # ties have one name
        return {name: state[name].detach().contiguous() for name in names.values()}

    def take(self, weights: dict[str, torch.Tensor], state: dict[str, torch.Tensor]) -> None:
        self.model.load_state_dict(weights, strict=False)  # tied weights are stored once
        if self.optimizer is not None:
            self.optimizer.load(state, weights)

    def write_model(self, folder: Path) -> None:
        """Write the model and its config as transformers does."""
        config, kept = self.model.config, self.model.config.dtype
        with self.merged(exactly=True):
            if self.ranks.rank > 0:
                return
            self.model.save_pretrained(folder)
        config.dtype = kept

    def export(self, folder: Path) -> None:
        self.write_model(folder)
        if self.ranks.rank > 0:
            return
        write_tokenizer(self.tokenizer, snapshot(self.source.path), folder)
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        if self.settings.load_in_4bit:
            config.pop("quantization_config", None)  # the weights were unpacked
        config = with_dtype(config | older_names(config), config["dtype"])
        path.write_text(json.dumps(config, indent=2) + "\n", "utf-8")

    def export_adapter(self, folder: Path) -> None:
        if self.ranks.rank == 0:
            self.adapters().write(folder, self.adapted, self.base)


build = TorchEngine
