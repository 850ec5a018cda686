"""The peak memory of a run, in bytes by part, before anything is loaded."""

from bisect import bisect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.shape import ModelShape, read_shape
from ictcli.engine.workload import Parts, Workload, memory_model
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
        """Return the bytes at the peak of one phase, or of the run."""
        return max(sum(self.phases[name].values()) for name in ([phase] if phase else self.phases))

    def json(self) -> dict[str, Any]:
        """Return what `--dry-run --json` prints."""
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
    recipe: Recipe, shape: ModelShape, prompt: int = PROMPT_TOKENS
) -> MemoryEstimate:
    """Estimate the peaks of a run, in the launch of this process, whose responses all run to
    max_tokens. Prompts have `prompt` tokens, or fewer where prompt.max_tokens or the context say
    so. Raises UserError where the engine has no memory model."""
    model, launch = memory_model(choose_backend(recipe.engine.backend)), find_launch()
    processes = max(launch.size, 1) if launch else 1
    prompt = min(prompt, recipe.prompt.max_tokens or prompt)
    space = (recipe.engine.context or shape.context) - recipe.max_tokens
    prompt = prompt if space < 1 else min(prompt, space)
    shards = processes if recipe.engine.shard else 1
    work = Workload(recipe, shape, device_of(recipe.engine), prompt, processes, shards)
    held, problems = model.held(work), min(recipe.eval.problems, CHUNK)
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


def resolve_micro_batch(
    recipe: Recipe, limit: MemoryLimit, shape: ModelShape, prompt: int = PROMPT_TOKENS
) -> Recipe:
    """Return the recipe with micro_tokens in place of micro_batch = "auto", where the limit is
    known: the most rows of full length whose update peaks below MARGIN of it, or one."""
    if recipe.engine.micro_batch != "auto" or not limit.size:
        return recipe
    length = estimate_memory(recipe, shape, prompt).prompt + recipe.max_tokens
    most = (recipe.update.minibatch or recipe.prompts) * recipe.group

    def is_too_much(rows: int) -> bool:  # all rows allowed, so a pass is filled as one of `score` is
        filled = recipe.with_engine(micro_tokens=rows * length, micro_batch=most)
        return estimate_memory(filled, shape, prompt).peak("updating") > MARGIN * limit.size

    rows = 1 + bisect(range(2, most + 1), False, key=is_too_much)  # they fit up to one
    return recipe.with_engine(micro_tokens=rows * length, micro_batch=None)


def choose_micro_tokens(
    recipe: Recipe,
    recorded: int | None,
    say: Callable[[str], None],
    limit: MemoryLimit,
    prompt: int = PROMPT_TOKENS,
) -> dict[str, int]:
    """Return the `micro_tokens` that micro_batch = "auto" sets, as environment.json records it;
    empty without auto. A resumed run keeps what was `recorded`, and so repeats the same bits."""
    if recipe.engine.micro_batch != "auto":
        return {}
    if recorded:
        return {"micro_tokens": recorded}
    tokens, reason = recipe.engine.micro_tokens, "how much memory there is is not known."
    try:
        tokens = resolve_micro_batch(
            recipe, limit, read_shape(recipe.model), prompt
        ).engine.micro_tokens
    except UserError as error:
        reason = error.message
    else:
        if limit.size:
            reason = f"the limit is {limit.size / 2**30:.1f} GiB ({limit.name})."
    say(f"engine.micro_batch=auto sets engine.micro_tokens to {tokens:,}: {reason}")
    return {"micro_tokens": tokens}
