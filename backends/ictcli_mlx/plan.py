"""The MLX engine's memory model (`ictcli.engine.workload.MemoryModel`). Imports no mlx.

How many copies of an array are held at once was measured on a CPU with mlx 0.32.4 by
`bench/memory.py`, which prints estimates beside measurements. On Metal the estimate is an upper
bound for reading prompts, where the attention kernel keeps no scores; a pass with a gradient keeps
them there too. Freed buffers that the allocator keeps, at most an eighth of the limit, are extra.
"""

from collections.abc import Iterator
from dataclasses import replace

from ictcli.algorithm.quantities import statistic
from ictcli.engine.packing import bucket
from ictcli.engine.shape import ModelShape
from ictcli.engine.workload import Parts, Pass, Workload

PACKS_ON: tuple[str, ...] = ("gpu", "cpu")
CACHE_STEP = 256
"""Positions by which mlx-lm's caches grow."""
PREFILL_TOKENS, GPU_PREFILL_TOKENS = 256, 8192
"""Prompt tokens of one pass, all rows together (`sample`). A CPU computes the scores that a chunk's
mask drops: fewer in small chunks. On a GPU a pass costs launches, and its attention keeps none."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 15, 1 << 26
"""Logits whose statistics are taken at once (`sample`): 128 KB, which a core's own cache holds; on
a GPU, which has no cache to fit and launches every call, 256 MB."""

# Copies held at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS = 4.8, 6.0
"""Of a decoding step's logits, and in addition with top-k or top-p."""
ROW_STATS, GROUP_STATS_COPIES, COMPILED_GROUP_STATS = 2.0, 9.0, 5.0
"""Of the probabilities taken at once, for statistics of a row, of a group, and of a group where
kernels are compiled."""
PASS_LOGITS, ENTROPY_LOGITS = 3.5, 6.0
"""Of a pass's logits, gradient included, and in addition with an entropy bonus."""
KEPT, RECOMPUTED = 1.05, 1.6
"""Of the activations that gradients need: in a block that keeps them, and in one that computes them
again."""
STEP_EMBEDDINGS = 1.5
"""Of embeddings that are their own float32 masters, while AdamW steps."""


def held(work: Workload) -> Parts:
    """Held in every phase."""
    return work.held() | {"weights": _shape(work).weights(work.width)}


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    """Reading the prompts of a pass, and its last decoding step."""
    s, recipe, width = _shape(work), work.recipe, work.width
    at_once = work.groups_at_once(prompts, group)
    rows = at_once * group
    adapted = 4 * sum(a * b for a, b in work.adapted.values())
    fused = work.blocks * adapted if width == 4 and not s.bits else 0

    def caches(rows: int, positions: int) -> float:
        return work.cache(rows, -(-positions // CACHE_STEP) * CACHE_STEP)

    chunk = GPU_PREFILL_TOKENS if work.gpu else PREFILL_TOKENS
    read = min(at_once * work.prompt, max(chunk, 2 * at_once))
    numbers = 6 * s.hidden + 5 * s.queries + 2.2 * s.intermediate + 1.1 * s.heads * work.prompt
    cache = caches(at_once, work.prompt)
    yield {"fused adapters": fused, "KV cache": cache, "activations": read * numbers * width}
    probabilities = rows * s.vocabulary
    pooled = GPU_ELEMENTS if work.gpu else PENDING_ELEMENTS
    taken = min(max(probabilities, PENDING_ELEMENTS), max(pooled, group * s.vocabulary))
    copies = STEP_LOGITS + (recipe.temperature != 1) + bool(stats)
    copies += CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    each = ROW_STATS if stats else 0
    if any(statistic(name).kind == "group" for name in stats):
        each = COMPILED_GROUP_STATS if _compiles(work) else GROUP_STATS_COPIES
    cache = caches(rows, work.length - 1)
    yield {
        "fused adapters": fused,
        "KV cache": cache * (1 + 1 / s.layers),  # a layer grows by copying
        "LM head": 4 * copies * probabilities,
        "statistics": 4 * each * taken,
        "activations": _kept(work, rows, work.length),
    }


def updating(work: Workload) -> Iterator[Parts]:
    """The moments of a pass at which its memory may peak, and AdamW's step. Gradients are the sum
    of earlier passes' and the pass's own."""
    s, recipe, full = _shape(work), work.recipe, not work.recipe.adapters
    summed = 4 * work.trained
    head = s.embedding * work.width if full else 0
    for one in _passes(work):
        tokens = one.tokens
        block = _kept(work, tokens, one.length) + _adapters(work, tokens)
        block += 2 * work.width * one.repeated * s.keys
        numbers = 8 * s.hidden + 4 * s.intermediate + 1.5 * s.heads * one.length
        passing = 4 * tokens * numbers  # the backward pass, much of it in float32
        layers = work.blocks * block  # earlier ones need no gradient
        again = 0
        if recipe.engine.gradient_checkpointing:
            inputs = work.blocks * tokens * s.hidden * work.width
            again = min(RECOMPUTED * block, layers - inputs)
            layers = inputs
        copies = PASS_LOGITS + (ENTROPY_LOGITS if recipe.entropy else 0)
        logits = 4 * copies * one.logits * s.vocabulary
        yield {"gradients": summed, "LM head": logits, "activations": layers}
        yield {"gradients": summed + head / 2, "activations": layers + again + passing}
        gradients = 2 * summed + (head if s.tied else 0)
        yield {"gradients": gradients, "activations": block + passing}
    step = 4 * STEP_EMBEDDINGS * s.embeddings if full and work.width == 4 else 0
    yield {"gradients": summed, "step of AdamW": step}


def _shape(work: Workload) -> ModelShape:
    """The model as it is loaded: load_in_4bit packs the embeddings too."""
    packs = work.recipe.engine.load_in_4bit and not work.shape.bits
    return work.shape.packed(4) if packs else work.shape


def _compiles(work: Workload) -> bool:
    chosen = work.recipe.engine.compile
    return chosen == "on" or (chosen == "auto" and work.gpu)


def _passes(work: Workload) -> Iterator[Pass]:
    """`Workload.passes`, padded to a bucket's size where compiled: MLX keeps a trace for each."""
    for one in work.passes(share=not work.recipe.engine.gradient_checkpointing):
        if not _compiles(work):
            yield one
        elif one.repeated:
            sizes = {"prompts": bucket(one.prompts), "prompt": bucket(one.prompt)}
            sizes["response"] = bucket(one.response)
            yield replace(one, rows=bucket(one.rows), logits=bucket(one.logits, 2), **sizes)
        else:
            rows, response = bucket(one.rows), bucket(one.length) - one.prompt
            logits = bucket(one.logits, 2)
            yield replace(one, rows=rows, prompts=rows, response=response, logits=logits)


def _kept(work: Workload, tokens: int, length: int) -> float:
    """Bytes of activations that the gradient of one block needs, for rows of `length`."""
    s, width = work.shape, work.width
    numbers = 4 * s.hidden + 4 * s.queries + 2 * s.keys + 5 * s.intermediate + s.heads * length
    return KEPT * tokens * numbers * width


def _adapters(work: Workload, tokens: int) -> float:
    """Bytes that adapters add to `_kept`: float32 copies of their inputs in a model of 16 bits."""
    return 4 * tokens * sum(a for a, _ in work.adapted.values()) if work.width < 4 else 0
