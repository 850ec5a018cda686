"""The peak memory of a run, in bytes by part, before anything is loaded; in one process, or in a
launch of the torch engine on several GPUs."""

from bisect import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.shape import ModelShape, read_shape
from ictcli.engine.workload import Layout, Parts, Workload, memory_model
from ictcli.errors import UserError
from ictcli.evaluation.samples import CHUNK
from ictcli.planning.machine import MemoryLimit, device_of
from ictcli.ranks import find_launch
from ictcli.recipe import Recipe

PROMPT_TOKENS = 256
"""Length of a prompt that is assumed; questions of GSM8K and MATH are seldom longer."""
MARGIN = 0.9
"""Share of the limit that micro_batch = "auto" plans to use: estimates err, allocators waste."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part at the peak of each phase, and the sizes they follow from."""

    shape: ModelShape
    trained: int
    """Trained parameters."""
    prompt: int
    """Tokens of a prompt."""
    tokens: int
    """Prompt and response tokens of a step."""
    phases: dict[str, Parts]
    """sampling, evaluating, updating."""

    def peak(self, phase: str = "") -> float:
        """Bytes at the peak of one phase, or of the run."""
        return max(sum(self.phases[name].values()) for name in ([phase] if phase else self.phases))

    def json(self) -> dict[str, Any]:
        """As `--dry-run --json` prints it."""
        sizes = {
            name: {part: round(size) for part, size in parts.items()}
            for name, parts in self.phases.items()
        }
        return {
            "parameters": self.shape.parameters,
            "trained": self.trained,
            "prompt_tokens": self.prompt,
            "tokens_per_step": self.tokens,
            "bytes": sizes,
            "peak_bytes": {name: round(self.peak(name)) for name in self.phases},
        }


def estimate_memory(
    recipe: Recipe, shape: ModelShape, prompt: int = PROMPT_TOKENS, layout: Layout | None = None
) -> MemoryEstimate:
    """The peaks of a run, by default in the launch of this process, whose responses all run to
    max_tokens. Prompts have `prompt` tokens, or fewer where prompt.max_tokens or the context say
    so.

    Raises UserError where the engine has no memory model.
    """
    model = memory_model(choose_backend(recipe.engine.backend))
    if layout is None:
        launch = find_launch()
        sharded = bool(recipe.engine.shard)
        layout = Layout(launch.size, sharded) if launch and launch.size else Layout()
    prompt = min(prompt, recipe.prompt.max_tokens or prompt)
    space = (recipe.engine.context or shape.context) - recipe.max_tokens
    prompt = prompt if space < 1 else min(prompt, space)
    work = Workload(recipe, shape, device_of(recipe.engine), prompt, layout)
    held = model.held(work)
    problems = min(recipe.eval.problems, CHUNK)
    moments = {
        "sampling": model.sampling(work, recipe.prompts, recipe.group, recipe.wanted_stats),
        "evaluating": model.sampling(work, problems, recipe.eval.n, ()),
        "updating": model.updating(work),
    }
    phases = {
        name: max((held | parts for parts in phase), key=lambda parts: sum(parts.values()))
        for name, phase in moments.items()
    }
    tokens = recipe.prompts * recipe.group * work.length
    return MemoryEstimate(shape, work.trained, work.prompt, tokens, phases)


def largest_micro_tokens(
    recipe: Recipe, shape: ModelShape, limit: float, prompt: int = PROMPT_TOKENS
) -> int:
    """The most tokens a pass whose update peaks below `MARGIN` of `limit` bytes, in whole rows of
    full length; one row where even that does not fit."""
    length = estimate_memory(recipe, shape, prompt).prompt + recipe.max_tokens
    most = (recipe.update.minibatch or recipe.prompts) * recipe.group

    def fits(rows: int) -> bool:  # all rows allowed, so that a pass is filled as one of `score` is
        filled = recipe.with_engine(micro_tokens=rows * length, micro_batch=most)
        return estimate_memory(filled, shape, prompt).peak("updating") <= MARGIN * limit

    more = range(2, most + 1)
    return length * (1 + bisect(more, False, key=lambda rows: not fits(rows)))  # they fit up to one


def resolve_micro_batch(
    recipe: Recipe, limit: MemoryLimit, shape: ModelShape, prompt: int = PROMPT_TOKENS
) -> Recipe:
    """The recipe with micro_tokens in place of micro_batch = "auto", where the limit is known."""
    if recipe.engine.micro_batch != "auto" or not limit.size:
        return recipe
    tokens = largest_micro_tokens(recipe, shape, limit.size, prompt)
    return recipe.with_engine(micro_tokens=tokens, micro_batch=None)


def choose_micro_tokens(
    recipe: Recipe,
    recorded: int | None,
    say: Callable[[str], None],
    limit: MemoryLimit,
    prompt: int = PROMPT_TOKENS,
) -> dict[str, int]:
    """The `micro_tokens` that micro_batch = "auto" sets, as environment.json records it; empty
    without auto. A resumed run keeps what was `recorded`, and so repeats the same bits."""
    if recipe.engine.micro_batch != "auto":
        return {}
    if recorded:
        return {"micro_tokens": recorded}
    tokens, reason = recipe.engine.micro_tokens, "how much memory there is is not known."
    try:
        resolved = resolve_micro_batch(recipe, limit, read_shape(recipe.model), prompt)
    except UserError as error:
        reason = error.message
    else:
        tokens = resolved.engine.micro_tokens
        if limit.size:
            reason = f"the limit is {limit.size / 2**30:.1f} GiB ({limit.name})."
    say(f"engine.micro_batch=auto sets engine.micro_tokens to {tokens:,}: {reason}")
    return {"micro_tokens": tokens}


LAYOUTS = {"replicated": False, "sharded": True}
"""Whether each spreads weights, gradients and moments."""
SIZES = (24, 40, 80, 140)
"""GiB of a GPU: of an RTX 4090, an A100, an H100 and an H200, say."""
COUNTS = (2, 4, 8, 16, 32, 64)


@dataclass(frozen=True)
class GpuPlan:
    """A GPU's memory by layout, on as many GPUs as asked for."""

    count: int
    limit: float
    """Bytes a GPU may take; 0 where it was not said."""
    estimates: dict[str, MemoryEstimate]
    fewest: dict[str, dict[int, int | None]]
    """By layout and GiB of a GPU, the fewest GPUs of `COUNTS` on which it fits into `MARGIN` of
    that; None = on none of them."""

    @property
    def chosen(self) -> str:
        """All weights on every GPU where one is said to hold them, else spread."""
        fits = self.estimates["replicated"].peak() <= MARGIN * self.limit
        return "replicated" if fits else "sharded"

    def json(self) -> dict[str, Any]:
        """As `--dry-run --gpus --json` prints it."""
        return {
            "gpus": self.count,
            "chosen": self.chosen,
            "limit_bytes": round(self.limit) or None,
            "plans": {name: estimate.json() for name, estimate in self.estimates.items()},
            "fewest_gpus": self.fewest,
        }


def plan_gpus(recipe: Recipe, count: int, gib: float = 0.0) -> GpuPlan:
    """Plan a run of the torch engine on `count` CUDA GPUs, each of `gib` where that is known.

    Raises UserError for another engine, and where the model's size cannot be read.
    """
    if choose_backend(recipe.engine.backend) != "torch":
        raise UserError("Several GPUs take the torch engine.", "--backend torch")
    recipe, shape = recipe.with_engine(device="cuda"), read_shape(recipe.model)
    estimates = {
        name: estimate_memory(recipe, shape, layout=Layout(count, sharded))
        for name, sharded in LAYOUTS.items()
    }

    def fewest(sharded: bool) -> Iterator[tuple[int, int | None]]:
        peaks = {n: estimate_memory(recipe, shape, layout=Layout(n, sharded)) for n in COUNTS}
        for size in SIZES:
            fits = (n for n, each in peaks.items() if each.peak() <= MARGIN * size * 2**30)
            yield size, next(fits, None)

    least = {name: dict(fewest(sharded)) for name, sharded in LAYOUTS.items()}
    return GpuPlan(count, gib * 2**30, estimates, least)
