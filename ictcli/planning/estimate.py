"""Estimates a run's peak memory in bytes, by part, before a model is loaded."""

from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.engine.registry import engine_module
from ictcli.engine.shape import ModelShape
from ictcli.engine.workload import Parts, Workload
from ictcli.evaluation.samples import CHUNK
from ictcli.planning.machine import device_of
from ictcli.recipe import Recipe

PROMPT_TOKENS = 256
"""Prompt length that the estimate assumes; questions of GSM8K and MATH are seldom longer."""


@dataclass(frozen=True)
class MemoryEstimate:
    """Bytes by part at the peak of each phase, and the sizes that were assumed."""

    shape: ModelShape
    trained: int
    """Number of trained parameters."""
    prompt: int
    """Number of tokens of each prompt."""
    tokens: int
    """Number of prompt and response tokens in a step."""
    phases: dict[str, Parts]
    """Bytes by part, for each phase: sampling, evaluating, updating."""

    def peak(self, phase: str = "") -> float:
        """Return the peak in bytes of one phase, or of the whole run if `phase` is empty."""
        return max(sum(self.phases[name].values()) for name in ([phase] if phase else self.phases))

    def json(self) -> dict[str, Any]:
        """Return the fields that `--dry-run --json` prints."""
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
    """Estimate the memory peaks of a run in one process, if every response is max_tokens long and
    every prompt has `prompt` tokens, or fewer if prompt.max_tokens or the context is shorter."""
    model = engine_module(choose_backend(recipe.engine.backend), "plan")
    prompt = min(prompt, recipe.prompt.max_tokens or prompt)
    space = (recipe.engine.context or shape.context) - recipe.max_tokens
    prompt = prompt if space < 1 else min(prompt, space)
    work = Workload(recipe, shape, device_of(recipe.engine), prompt)
    constant, problems = model.held(work), min(recipe.eval.problems, CHUNK)
    phases = {
        "sampling": model.sampling(work, recipe.prompts, recipe.group, recipe.wanted_stats),
        "evaluating": model.sampling(work, problems, recipe.eval.n, ()),
        "updating": max(model.updating(work), key=lambda parts: sum(parts.values())),
    }
    phases = {name: constant | parts for name, parts in phases.items()}
    tokens = recipe.prompts * recipe.group * work.length
    return MemoryEstimate(shape, work.trained, work.prompt, tokens, phases)
