"""What the MLX engine holds, by phase.

How many copies of something are held at once was measured, not derived: on a CPU with mlx 0.32.4,
by `bench/memory.py`, which shows plan and measurement side by side. On Metal it is an upper bound:
the kernel that reads the prompts holds no scores there. (A pass with a gradient holds them on Metal
too: mlx falls back to the same operations.) Freed buffers that the allocator keeps, an eighth of
the limit at most, come on top.
"""

from __future__ import annotations

from collections.abc import Iterator

from ictcli.planning.parts import Parts, Run, passes
from ictcli.types import GROUP_STATS

CACHE_STEP, PREFILL_TOKENS = 256, 8192
"""Positions by which mlx-lm's caches grow; prompt tokens read at once (`ictcli_mlx.sample`)."""
STATS_ELEMENTS, GPU_STATS_ELEMENTS = 1 << 18, 1 << 26
"""Probabilities whose statistics are taken at once (`ictcli_mlx.stats`)."""

STEP_LOGITS, CUT_LOGITS = 4.8, 6.0
"""Copies of a decoding step's logits, float32 as all logits here, and those top-k or top-p adds."""
FIGURES, DIVERGENCES, COMPILED_DIVERGENCES = 2.0, 9.0, 5.0
"""Copies of the probabilities whose statistics are taken: each row's own, and those of groups."""
PASS_LOGITS, ENTROPY_LOGITS = 3.5, 6.0
"""Copies of a pass's logits, its gradient's included, and those an entropy bonus adds."""
KEPT, RECOMPUTED = 1.05, 1.6
"""What layers keep over what their gradients need; the same of one that is computed again."""
DORA_BLOCKS = 1.7
"""Float32 copies of a block's adapted matrices, which DoRA makes of its own at every step."""
STEP_EMBEDDINGS = 1.5
"""Copies of embeddings that are their own masters, while AdamW steps."""


def held(run: Run) -> Parts:
    """What is there in every phase."""
    return run.held()


def sampling(run: Run, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    """Reading the prompts of one pass, and its last step of decoding."""
    s, recipe, width = run.shape, run.recipe, run.width
    at_once = min(prompts, max(1, recipe.engine.rows // group))
    rows = at_once * group
    adapted = 4 * sum(a * b for a, b in run.adapted.values())
    fused = run.blocks * adapted if width == 4 and not s.bits else 0

    def caches(rows: int, positions: int) -> float:
        capacity = -(-positions // CACHE_STEP) * CACHE_STEP
        return 2.0 * rows * capacity * s.layers * s.keys * width

    read = min(at_once * run.prompt, max(PREFILL_TOKENS, at_once))
    numbers = 6 * s.hidden + 5 * s.queries + 2.2 * s.intermediate + 1.1 * s.heads * run.prompt
    cache = caches(at_once, run.prompt)
    yield {"fused adapters": fused, "KV cache": cache, "activations": read * numbers * width}
    probabilities = rows * s.vocabulary
    pooled = GPU_STATS_ELEMENTS if run.gpu else STATS_ELEMENTS
    taken = min(max(probabilities, STATS_ELEMENTS), max(pooled, group * s.vocabulary))
    copies = STEP_LOGITS + (recipe.temperature != 1) + bool(stats)
    copies += CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    each = FIGURES if stats else 0
    if set(stats) & set(GROUP_STATS):
        each = COMPILED_DIVERGENCES if run.compiled else DIVERGENCES
    cache = caches(rows, run.length - 1)
    if recipe.adapter.kind == "dora" and not fused:
        yield {"KV cache": cache, "activations": DORA_BLOCKS * adapted}
    yield {
        "fused adapters": fused,
        "KV cache": cache * (1 + 1 / s.layers),  # a layer's grows while the old one is there
        "LM head": 4 * copies * probabilities,
        "statistics": 4 * each * taken,
        "activations": _kept(run, rows, run.length),
    }


def updating(run: Run) -> Iterator[Parts]:
    """The moments of a pass at which its memory may be highest, and the step of AdamW. Gradients
    are those of the passes before, summed, and the pass's own."""
    s, recipe, full = run.shape, run.recipe, not run.recipe.adapters
    summed = 4 * run.trained
    head = s.embedding * run.width if full else 0
    for rows, length, places in passes(run):
        tokens = rows * length
        block = _kept(run, tokens, length) + _extra(run, tokens)
        numbers = 8 * s.hidden + 4 * s.intermediate + 1.5 * s.heads * length
        passing = 4 * tokens * numbers  # on the way back, much of it in float32
        layers = run.blocks * block  # below them no gradient is needed
        again = 0
        if recipe.engine.gradient_checkpointing:
            inputs = run.blocks * tokens * s.hidden * run.width
            again = min(RECOMPUTED * block, layers - inputs)
            layers = inputs
        copies = PASS_LOGITS + (ENTROPY_LOGITS if recipe.entropy else 0)
        logits = 4 * copies * places * s.vocabulary
        yield {"gradients": summed, "LM head": logits, "activations": layers}
        yield {"gradients": summed + head / 2, "activations": layers + again + passing}
        gradients = 2 * summed + (head if s.tied else 0)
        yield {"gradients": gradients, "activations": block + passing}
    step = 4 * STEP_EMBEDDINGS * s.embeddings if full and run.width == 4 else 0
    yield {"gradients": summed, "step of AdamW": step}


def _kept(run: Run, tokens: int, length: int) -> float:
    """Bytes of activations of a block that its gradient needs, of rows of `length`."""
    s, width = run.shape, run.width
    numbers = 4 * s.hidden + 4 * s.queries + 2 * s.keys + 5 * s.intermediate + s.heads * length
    return KEPT * tokens * numbers * width


def _extra(run: Run, tokens: int) -> float:
    """The same, of what adapters add to one block: float32 copies of their inputs where the
    model computes in 16 bits, and DoRA's unscaled outputs and unpacked weights."""
    sizes = run.adapted.values()
    casts = 4 * tokens * sum(a for a, _ in sizes) if run.width < 4 else 0
    if run.recipe.adapter.kind != "dora":
        return casts
    unpacked = sum(a * b for a, b in sizes) if run.shape.bits else 0
    return casts + run.width * (tokens * sum(b for _, b in sizes) + unpacked)
