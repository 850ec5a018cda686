"""The peak memory of a run, in bytes by part, before anything is loaded."""

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
"""Length of a prompt that is assumed; questions of GSM8K and MATH are seldom longer."""


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
    """Estimate the peaks of a run of one process, whose responses all run to max_tokens. Prompts
    have `prompt` tokens, or fewer where prompt.max_tokens or the context say so."""
    model = engine_module(choose_backend(recipe.engine.backend), "plan")
    prompt = min(prompt, recipe.prompt.max_tokens or prompt)
    space = (recipe.engine.context or shape.context) - recipe.max_tokens
    prompt = prompt if space < 1 else min(prompt, space)
    work = Workload(recipe, shape, device_of(recipe.engine), prompt)
    held, problems = model.held(work), min(recipe.eval.problems, CHUNK)
    phases = {
        "sampling": model.sampling(work, recipe.prompts, recipe.group, recipe.wanted_stats),
        "evaluating": model.sampling(work, problems, recipe.eval.n, ()),
        "updating": max(model.updating(work), key=lambda parts: sum(parts.values())),
    }
    phases = {name: held | parts for name, parts in phases.items()}
    tokens = recipe.prompts * recipe.group * work.length
    return MemoryEstimate(shape, work.trained, work.prompt, tokens, phases)
