"""The MLX engine's memory estimate (`ictcli.engine.workload`). Imports no mlx.

The numbers of copies of an array were measured on a CPU with mlx 0.32.4 by `bench/memory.py`, which
prints estimates next to measurements. On Metal prefill needs less than estimated: its attention
kernel stores no scores. Freed buffers, at most an eighth of the limit, are not included."""

from collections.abc import Iterator
from dataclasses import replace

from ictcli.engine.packing import bucket
from ictcli.engine.shape import ModelShape
from ictcli.engine.workload import Parts, Workload

CACHE_STEP = 256
"""Number of positions by which mlx-lm's KV caches grow."""
PREFILL_TOKENS, GPU_PREFILL_TOKENS = 256, 8192
"""Prompt tokens of one prefill pass, all rows together (`sample`), on a CPU and on a GPU. A CPU
also computes the scores that the mask hides; in small chunks these are fewer. On a GPU each pass
costs kernel launches, and attention stores no scores."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 15, 1 << 26
"""Number of logits whose statistics are computed together (`sample`): on a CPU 128 KB, which fit a
core's cache; on a GPU, where each call is a launch, 256 MB."""

# How many copies of an array exist at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS = 5.8, 6.0
"""Copies in memory of a decoding step's logits; additional copies with top-k or top-p."""
ROW_STATS, GROUP_STATS, COMPILED_GROUP_STATS = 2.0, 9.0, 5.0
"""Copies in memory of the probabilities whose statistics are computed together: statistics of
single rows, statistics that compare a group's rows, and the latter with compiled kernels."""
PASS_LOGITS, ENTROPY_LOGITS = 3.5, 6.0
"""Copies in memory of a pass's logits, gradient included; more with an entropy bonus."""
KEPT, RECOMPUTED = 1.05, 1.6
"""Copies of a transformer block's activations: if kept for the backward pass; if recomputed."""
STEP_EMBEDDINGS = 1.5
"""Copies in memory of trained float32 embeddings during AdamW's step."""


def held(work: Workload) -> Parts:
    """Return the bytes in use both while sampling and in updates, by what they hold."""
    return work.held() | {"weights": _shape(work).weights(work.width)}


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Parts:
    """Return the bytes that the last decoding step adds, by what they hold."""
    s, recipe = _shape(work), work.recipe
    rows = work.rows_at_once(prompts, group)
    adapted = 4 * work.blocks * sum(a * b for a, b in work.adapted.values())
    logits = rows * s.vocabulary
    pooled = GPU_ELEMENTS if work.gpu else PENDING_ELEMENTS
    pooled = min(logits, max(pooled, group * s.vocabulary))
    of_group = COMPILED_GROUP_STATS if _compiles(work) else GROUP_STATS
    cut = CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    positions = -(-(work.length - 1) // CACHE_STEP) * CACHE_STEP
    return {
        "fused adapters": adapted if work.width == 4 and not s.bits else 0,
        "KV cache": work.cache(rows, positions) * (1 + 1 / s.layers),  # growing copies a layer
        "LM head": 4 * (STEP_LOGITS + cut) * logits,
        "statistics": 4 * work.statistics(stats, ROW_STATS, of_group) * pooled,
        "activations": _kept(work, rows, work.length),
    }


def updating(work: Workload) -> Iterator[Parts]:
    """Yield the bytes, by what they hold, at each possible peak of a pass, then in AdamW's step. A
    pass adds its own gradient to the sum over earlier passes."""
    s, recipe, full = _shape(work), work.recipe, not work.recipe.adapters
    summed = 4 * work.trained
    head = s.embedding * work.width if full else 0
    largest = work.largest_pass(share=not recipe.engine.gradient_checkpointing)
    tokens, length = largest.tokens, work.length
    if _compiles(work):  # padded to few sizes, since each is compiled
        tokens, length = bucket(tokens), bucket(length)
    block = _kept(work, tokens, length) + 2 * work.width * largest.repeated * s.keys
    if work.width < 4:  # adapters compute in float32, on copies
        block += 4 * tokens * sum(a for a, _ in work.adapted.values())
    numbers = 8 * s.hidden + 4 * s.intermediate + 1.5 * s.heads * length
    backward = 4 * tokens * numbers  # mostly float32
    layers, again = work.blocks * block, 0.0  # only trained blocks keep activations
    if recipe.engine.gradient_checkpointing:
        inputs = work.blocks * tokens * s.hidden * work.width
        layers, again = inputs, min(RECOMPUTED * block, layers - inputs)
    copies = PASS_LOGITS + ENTROPY_LOGITS * (recipe.entropy > 0)
    logits = 4 * copies * largest.logits * s.vocabulary
    yield {"gradients": summed, "LM head": logits, "activations": layers}
    yield {"gradients": summed + head / 2, "activations": layers + again + backward}
    gradients = 2 * summed + (head if s.tied else 0)
    yield {"gradients": gradients, "activations": block + backward}
    step = 4 * STEP_EMBEDDINGS * s.embeddings if full and work.width == 4 else 0
    yield {"gradients": summed, "step of AdamW": step}


def _shape(work: Workload) -> ModelShape:
    """Return the sizes of the model as loaded: `load_in_4bit` quantises the embeddings too."""
    packs = work.recipe.engine.load_in_4bit and not work.shape.bits
    return replace(work.shape, bits=4, stored=None) if packs else work.shape


def _compiles(work: Workload) -> bool:
    chosen = work.recipe.engine.compile
    return chosen == "on" or (chosen == "auto" and work.gpu)


def _kept(work: Workload, tokens: int, length: int) -> float:
    """Return the bytes of activations for a block's gradient, with rows of `length` tokens."""
    s = work.shape
    numbers = 4 * s.hidden + 4 * s.queries + 2 * s.keys + 5 * s.intermediate + s.heads * length
    return KEPT * tokens * numbers * work.width
