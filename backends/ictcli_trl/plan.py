"""The TRL engine's memory model (`ictcli.engine.workload.MemoryModel`), and the recipes it refuses.
Imports no torch.

Of one process of a launch, by default the one that this process belongs to, by the torch engine's
counts; what several processes change was not measured. Weights that are trained are float32. Where
they are sharded, or computed in bfloat16, those that sample are a copy, put together for as long as
that takes.
"""

from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec

from ictcli_torch import plan

from ictcli.engine.workload import Launch, Parts, Workload
from ictcli.errors import EngineMissingError, UserError
from ictcli.recipe import Recipe

from .launch import processes, shards

PACKS_ON: tuple[str, ...] = ()


def _launch(work: Workload) -> Launch:
    return work.launch or Launch(processes(), shards() > 1)


def _share(work: Workload, prompts: int) -> int:
    """The prompts of a process, of so many."""
    return -(-prompts // _launch(work).processes)


def held(work: Workload) -> Parts:
    """Held in every phase."""
    parts, full, shards = plan.held(work), not work.recipe.adapters, _launch(work).shards
    if not full and shards == 1:
        return parts
    parts |= {"weights": work.shape.weights(4), "float32 masters": 0}
    if full and work.recipe.kl > 0:
        parts["reference policy"] = 4 * work.trained
    spread = ("weights", "reference policy", "AdamW's moments", "adapters")
    return parts | {name: parts[name] / shards for name in spread}


def gathered(work: Workload) -> float:
    """Bytes of the copy of the weights that samples."""
    if work.recipe.engine.sampler != "own":
        return 0
    copied = _launch(work).shards > 1 or (work.width < 4 and not work.recipe.adapters)
    return work.shape.weights(work.width) if copied else 0


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    """The torch engine's, with the weights put together."""
    for parts in plan.sampling(work, _share(work, prompts), group, stats):
        yield parts | {"gathered weights": gathered(work)}


def updating(work: Workload) -> Iterator[Parts]:
    """The torch engine's, with the gradients of a share of the weights; or of all and, where others
    have theirs too, as much again for the messages to them."""
    recipe, launch, summed = work.recipe, _launch(work), 4 * work.trained
    several = launch.processes > 1 and launch.shards == 1
    reference = recipe.kl > 0 and not recipe.adapters
    minibatch = _share(work, recipe.update.minibatch or recipe.prompts)
    updates = recipe.update.model_copy(update={"minibatch": minibatch})
    for parts in plan.updating(replace(work, recipe=recipe.model_copy(update={"update": updates}))):
        gradients = parts.get("gradients", summed) - summed + summed / launch.shards
        blocks = 2 * work.width * work.shape.block + work.width * work.shape.embeddings
        yield parts | {
            "gradients": gradients + (summed if several else 0),
            "gathered weights": blocks if launch.shards > 1 else 0,
        }
    if reference and gathered(work):
        yield {"gathered weights": gathered(work)}


def inexpressible(term: str) -> tuple[str, str]:
    """Message and hint for a term of the loss that TRL does not have."""
    return f"TRL's loss has no place for {term}.", "--backend torch has, in one process"


def check(recipe: Recipe) -> None:
    """Entry point `ictcli.checks`: refuse a recipe that TRL or its loss cannot train.

    TRL takes the mean of an entropy at the sampling temperature over a pass; ictcli's bonus is a
    weighted sum of entropies at temperature 1.
    """
    if recipe.engine.sampler == "vllm":
        if find_spec("vllm") is None:
            raise EngineMissingError("engine.sampler=vllm needs vLLM.", 'pip install "trl[vllm]"')
        if recipe.adapters:
            raise UserError(
                "engine.sampler=vllm takes models whose weights are all trained.",
                "adapter.kind=none, or engine.sampler=transformers",
            )
    if recipe.engine.load_in_4bit:
        raise UserError("The TRL engine trains on no weights of 4 bits.", "--backend torch does")
    if recipe.optimizer.kind != "adamw":
        raise UserError(f"The TRL engine has no {recipe.optimizer.kind}.", "--backend torch has")
    if recipe.entropy:
        hint = "entropy=0, or --backend torch, which has it, in one process"
        raise UserError(inexpressible("the entropy bonus")[0], hint)
    if recipe.clip.on != "ratio":
        raise UserError(*inexpressible("a clip of the total variation"))
    penalty = {"kl_cov": "old policy", "lp_reg": "proxy"}.get(recipe.rule.name)
    if penalty:
        raise UserError(*inexpressible(f"the KL to the {penalty}, which {recipe.rule.name} adds"))
