"""What is used of TRL that it does not promise to keep; nothing else in ictcli depends on it.

| of TRL | for |
|---|---|
| `GRPOTrainer._compute_loss(model, inputs)` | the loss of a pass |
| `GRPOTrainer._get_per_token_logps_and_entropies` | the log-probabilities of that pass |
| `inputs["tool_mask"]` | the weights w (see `loss`) |
| `loss_type="dapo"`, `inputs["num_items_in_batch"]` | a plain sum over tokens |
| `gather`, `reduce` of its accelerator there | its own metrics alone (see `Alone`) |
| `use_vllm`, `inputs["importance_sampling_ratio"]` | the factor pi / pi_sampler of a token |
| `vllm_generation`: its `sync_weights`, `generate` and settings of sampling | rollouts by vLLM |
| `epsilon_low`, `epsilon_high`, `beta`, `_metrics` of a trainer | an objective |
| `add_fused_lm_head(model, temperature, outputs)` | the sampling temperature |
"""

import copy
import inspect
import math
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.metadata import version
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from ictcli.algorithm.objective import Objective
from ictcli.engine.sampling import Prompts
from ictcli.errors import EngineMissingError, install
from ictcli.recipe.tables import EngineSettings
from ictcli.types import Sampling

TESTED = ("1.16",)
"""Versions of TRL that ictcli is tested with."""
HOOKS = {
    "_compute_loss": ("self", "model", "inputs"),
    "_get_per_token_logps_and_entropies": (
        *("self", "model", "input_ids", "attention_mask", "logits_to_keep"),
        *("batch_size", "compute_entropy"),
    ),
}
"""Private methods of GRPOTrainer with the parameters they begin with."""


def misfit(installed: str, trainer: type) -> str:
    """What of TRL is not as ictcli knows it, as the end of a sentence; empty where all is."""
    if installed.rpartition(".")[0] not in TESTED:
        return f"it is {installed}, and ictcli knows {', '.join(TESTED)}"
    for name, wanted in HOOKS.items():
        method = getattr(trainer, name, None)
        own = tuple(inspect.signature(method).parameters) if method else ()
        if own[: len(wanted)] != wanted:
            return f"its GRPOTrainer.{name} is another"
    return ""


@cache
def trainer_class() -> Any:
    """GRPOTrainer, with one method extended: it keeps the log-probabilities of its last pass.

    Raises EngineMissingError for a TRL that does not fit.
    """
    from trl.trainer.grpo_trainer import GRPOTrainer

    if reason := misfit(version("trl"), GRPOTrainer):
        raise EngineMissingError(f"This TRL does not fit: {reason}.", install("trl"))

    class TokenWeightTrainer(GRPOTrainer):
        logp: Tensor
        """(R, S) of the last pass."""

        def _get_per_token_logps_and_entropies(self, *args: Any, **options: Any) -> Any:
            found = super()._get_per_token_logps_and_entropies(*args, **options)
            self.logp = found[0].detach()
            return found

    return TokenWeightTrainer


def make_trainer(
    model: Any, tokenizer: Any, *, cpu: bool, bfloat16: bool, vllm: dict[str, Any]
) -> tuple[Any, Accelerator]:
    """A trainer of the model, and its accelerator. The steps are `ictcli.train`'s, and the data
    that TRL is told of is never read. `vllm` are settings of vLLM (`vllm_settings`)."""
    from datasets import Dataset
    from trl.trainer.grpo_config import GRPOConfig

    configs = model.config, model.config.get_text_config(), model.generation_config
    own = [dict(vars(config)) for config in configs]
    with tempfile.TemporaryDirectory() as folder:
        arguments = GRPOConfig(
            output_dir=folder,
            **{"per_device_train_batch_size": 2, **vllm},
            num_generations=2,
            steps_per_generation=1,
            loss_type="dapo",
            beta=0.0,
            use_bias_correction_kl=False,  # it multiplies the KL by the ratio
            router_aux_loss_coef=0.0,
            activation_checkpointing=False,  # ours computes with the same bits as without
            ddp_find_unused_parameters=False,
            use_cpu=cpu,
            bf16=bfloat16,
            report_to=[],
            save_strategy="no",
            disable_tqdm=True,
        )
        trainer = trainer_class()(
            model,
            reward_funcs=[_no_reward],
            args=arguments,
            train_dataset=Dataset.from_dict({"prompt": [""] * 2}),
            processing_class=copy.deepcopy(tokenizer),  # whose padding it sets
        )
    for config, values in zip(configs, own, strict=True):  # which an export would take along
        vars(config).clear()
        vars(config).update(values)
    trainer.temperature, trainer.vllm_importance_sampling_correction = 1.0, True
    accelerator, trainer.accelerator = trainer.accelerator, Alone(trainer.accelerator)
    return trainer, accelerator


def vllm_settings(settings: EngineSettings) -> dict[str, Any]:
    """Settings of GRPOConfig that have it sample by vLLM, if it is to."""
    if settings.sampler != "vllm":
        return {}
    where: dict[str, Any] = {"vllm_gpu_memory_utilization": settings.vllm_memory}
    if settings.vllm_server:
        where = {"vllm_server_base_url": settings.vllm_server}
    return {
        "use_vllm": True,
        "vllm_mode": "server" if settings.vllm_server else "colocate",
        "per_device_train_batch_size": 2 * max(settings.rows // 2, 1),  # rows side by side
        "trust_remote_code": settings.trust_remote_code,
        **where,
    }


def vllm_rows(
    trainer: Any, prompts: Prompts, group: int, sampling: Sampling, *, moved: bool
) -> tuple[list[list[int]], list[list[float]]]:
    """Tokens and log-probabilities of each row of this process, by vLLM; `moved` says that the
    weights are others than before. Log-probabilities that vLLM does not know are NaN. All processes
    have to be here, with as many prompts each."""
    vllm = trainer.vllm_generation
    if moved:
        vllm.sync_weights()
    vllm.temperature, vllm.top_p, vllm.top_k = sampling.temperature, sampling.top_p, sampling.top_k
    vllm.max_completion_length = sampling.max_tokens
    vllm.generation_kwargs = {"stop_token_ids": list(sampling.stop_ids)}
    rows = [list(prompt) for prompt in prompts for _ in range(group)]
    _, tokens, logp, _ = vllm.generate(prompts=rows, images=None, num_generations=group)
    numbers = [[math.nan if best[0] is None else best[0] for best in row] for row in logp]
    return [list(row) for row in tokens], numbers


class Alone:
    """An accelerator for the metrics of TRL's loss, of this process alone: passes of other ranks
    have other numbers of rows, and its own six messages a pass would be for nothing."""

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._accelerator, name)


def _no_reward(completions: list[Any], **columns: Any) -> list[float]:
    return [0.0] * len(completions)


def shard_on_cpu(accelerator: Accelerator) -> None:
    """accelerate shards over GPUs alone: have it shard over processes of a CPU too, by FSDP2, where
    what is asked for is tried out."""
    from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin

    state: Any = accelerator.state
    state.distributed_type = DistributedType.FSDP
    state.fsdp_plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2, auto_wrap_policy="transformer_based_wrap", cpu_ram_efficient_loading=False
    )


def set_objective(trainer: Any, model: Any, objective: Objective) -> None:
    """Have the trainer compute this objective for its model."""
    trainer.epsilon_low, trainer.epsilon_high = objective.eps_low, objective.eps_high
    trainer.beta = objective.kl
    if trainer.temperature != objective.temperature:
        from trl.trainer.utils import add_fused_lm_head

        head = {"temperature": objective.temperature, "outputs": ("log_probs", "entropy")}
        add_fused_lm_head(model, **head)
        trainer.temperature = objective.temperature


def loss(trainer: Any, model: Any, inputs: Mapping[str, Tensor]) -> Tensor:
    """sum -w * Psi of a pass, times the number of processes, whose gradients are averaged.

    `inputs` are prompt_ids, prompt_mask (R, P), completion_ids, completion_mask, advantages and
    weights (R, S) and, where they count, old_per_token_logps, ref_per_token_logps and
    importance_sampling_ratio (R, S).

    TRL multiplies what a token adds to the loss, its KL term included, by a mask of the tokens that
    are not a tool's, and divides the sum by `num_items_in_batch` a process. With w as that mask and
    1 item the loss is `ictcli.algorithm.objective`'s. Advantages w * A, which TRL takes of every
    token, would leave the KL term without its weights: they carry the sign of w alone.
    """
    given = {name: values for name, values in inputs.items() if name != "weights"}
    one = torch.ones((), device=inputs["weights"].device)
    given |= {"tool_mask": inputs["weights"], "num_items_in_batch": one}
    trainer.use_vllm = "importance_sampling_ratio" in inputs
    result = trainer._compute_loss(model, given)
    for figures in trainer._metrics.values():  # TRL would keep them until it logs
        figures.clear()
    return result
