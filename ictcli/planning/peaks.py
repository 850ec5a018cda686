"""The peaks of a run, in bytes by part, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ictcli.engine import choose_backend
from ictcli.evaluation.evaluate import CHUNK
from ictcli.planning import on_mlx, on_torch
from ictcli.planning.parts import Parts, Run
from ictcli.planning.shapes import Shape
from ictcli.recipe import Recipe

PROMPT_TOKENS = 256
"""Taken where nothing is said; what a question of GSM8K or MATH seldom has."""


@dataclass(frozen=True)
class Plan:
    """Bytes by part at the peak of each phase, and what they are of."""

    shape: Shape
    trained: int
    prompt: int
    """Tokens a prompt is taken to have."""
    tokens: int
    """Prompt and response tokens of a step."""
    phases: dict[str, Parts]
    """sampling, evaluating, updating."""

    def peak(self, phase: str = "") -> float:
        """Of one phase, or of all."""
        return max(sum(self.phases[name].values()) for name in ([phase] if phase else self.phases))

    def json(self) -> dict[str, Any]:
        """As `--dry-run --json` gives it."""
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


def plan(recipe: Recipe, shape: Shape, *, device: str, prompt: int = PROMPT_TOKENS) -> Plan:
    """The peaks of a run on `device` (`Run.device`) whose prompts have `prompt` tokens, where the
    context and prompt.max_tokens leave as many, and whose responses all run to max_tokens."""
    prompt = min(prompt, recipe.prompt.max_tokens or prompt)
    if recipe.engine.load_in_4bit and choose_backend(recipe.engine.backend) == "mlx":
        shape = shape if shape.bits else shape.packed(4)  # PyTorch leaves the embeddings
    room = shape.context - recipe.max_tokens
    run = Run(recipe, shape, device, prompt if room < 1 else min(prompt, room))
    on = on_mlx if run.backend == "mlx" else on_torch
    held, stats = on.held(run), recipe.wanted_stats
    problems = min(recipe.eval.problems, CHUNK)
    phases = {
        "sampling": [held | part for part in on.sampling(run, recipe.prompts, recipe.group, stats)],
        "evaluating": [held | part for part in on.sampling(run, problems, recipe.eval.n, ())],
        "updating": [held | part for part in on.updating(run)],
    }
    worst = {name: max(found, key=lambda x: sum(x.values())) for name, found in phases.items()}
    tokens = recipe.prompts * recipe.group * run.length
    return Plan(shape, run.trained, run.prompt, tokens, worst)
