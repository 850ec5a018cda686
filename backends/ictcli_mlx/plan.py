"""The MLX engine's memory model (`ictcli.engine.workload`). Imports no mlx.

How many copies of an array are held at once was measured on a CPU with mlx 0.32.4 by
`bench/memory.py`, which prints estimates next to measurements. On Metal the estimate is an upper
bound for reading prompts, where the attention kernel keeps no scores. Freed buffers that the
allocator keeps, at most an eighth of the limit, are extra."""

from collections.abc import Iterator
from dataclasses import replace

from ictcli.engine.packing import bucket
from ictcli.engine.shape import ModelShape
from ictcli.engine.workload import Parts, Workload

CACHE_STEP = 256
"""Positions by which mlx-lm's caches grow."""
PREFILL_TOKENS, GPU_PREFILL_TOKENS = 256, 8192
"""Prompt tokens of one pass, all rows together (`sample`). A CPU computes the scores that a chunk's
mask drops: fewer in small chunks. On a GPU a pass costs launches, and its attention keeps none."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 15, 1 << 26
"""Logits whose statistics are taken at once (`sample`): 128 KB, which fit a core's cache; on a GPU,
which has no cache to fit and launches every call, 256 MB."""

# Copies held at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS = 5.8, 6.0
"""Multiples of a decoding step's logits, and in addition with top-k or top-p."""
ROW_STATS, GROUP_STATS, COMPILED_GROUP_STATS = 2.0, 9.0, 5.0
"""Multiples of the probabilities taken at once, for statistics of a row, of a group, and of a group
where kernels are compiled."""
PASS_LOGITS, ENTROPY_LOGITS = 3.5, 6.0
"""Multiples of a pass's logits, gradient included, and in addition with an entropy bonus."""
KEPT, RECOMPUTED = 1.05, 1.6
"""Multiples of the activations that gradients need: in a block that keeps them, and in one that
computes them again."""
STEP_EMBEDDINGS = 1.5
"""Multiple of embeddings that are their own float32 masters, while AdamW steps."""


def held(work: Workload) -> Parts:
    """Return what is held in every phase."""
    return work.held() | {"weights": _shape(work).weights(work.width)}


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Parts:
    """Return what the last decoding step takes."""
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
        "KV cache": work.cache(rows, positions) * (1 + 1 / s.layers),  # a layer grows by copying
        "LM head": 4 * (STEP_LOGITS + cut) * logits,
        "statistics": 4 * work.statistics(stats, ROW_STATS, of_group) * pooled,
        "activations": _kept(work, rows, work.length),
    }


def updating(work: Workload) -> Iterator[Parts]:
    """Yield the moments of a pass, and AdamW's step. Gradients are the sum of earlier passes' and
    the pass's own."""
    s, recipe, full = _shape(work), work.recipe, not work.recipe.adapters
    summed = 4 * work.trained
    head = s.embedding * work.width if full else 0
    largest = work.largest_pass(share=not recipe.engine.gradient_checkpointing)
    tokens, length = largest.tokens, work.length
    if _compiles(work):  # padded: MLX keeps a trace for each size
        tokens, length = bucket(tokens), bucket(length)
    block = _kept(work, tokens, length) + 2 * work.width * largest.repeated * s.keys
    if work.width < 4:  # adapters compute in float32, of copies
        block += 4 * tokens * sum(a for a, _ in work.adapted.values())
    numbers = 8 * s.hidden + 4 * s.intermediate + 1.5 * s.heads * length
    backward = 4 * tokens * numbers  # much of it in float32
    layers, again = work.blocks * block, 0.0  # earlier ones need no gradient
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
    """Return the model as it is loaded: load_in_4bit packs the embeddings too."""
    packs = work.recipe.engine.load_in_4bit and not work.shape.bits
    return replace(work.shape, bits=4, stored=None) if packs else work.shape


def _compiles(work: Workload) -> bool:
    chosen = work.recipe.engine.compile
    return chosen == "on" or (chosen == "auto" and work.gpu)


def _kept(work: Workload, tokens: int, length: int) -> float:
    """Return the activations that the gradient of one block needs, for rows of `length`."""
    s = work.shape
    numbers = 4 * s.hidden + 4 * s.queries + 2 * s.keys + 5 * s.intermediate + s.heads * length
    return KEPT * tokens * numbers * work.width
