"""What the torch engine holds, by phase.

On a CPU and on MPS it is the process's resident set, its libraries included; on a CUDA GPU the
device's memory. How many copies of something are held at once was measured on a CPU with torch
2.13 by `bench/memory.py`, which shows plan and measurement side by side; on the other devices it is
the same arithmetic, of other widths, and was measured on none. There the allocator's own
fragments come on top.
"""

from __future__ import annotations

from collections.abc import Iterator

from ictcli.planning.parts import Parts, Run, passes
from ictcli.types import GROUP_STATS

LIBRARIES, CUDA_CONTEXT = 440 << 20, 500 << 20
"""Python with torch and transformers, resident; what CUDA takes of a GPU before any tensor."""
PEFT = 20 << 20
NF4 = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes of a packed weight and its share of the scales, which are packed too; embeddings and head
stay as they are."""
CHUNK = 32
"""Positions of room a cache is made with; it doubles when it is full (`ictcli_torch.cache`)."""
STATS_ELEMENTS, GPU_STATS_ELEMENTS = 1 << 21, 1 << 26
"""Logits whose statistics are taken at once (`ictcli_torch.stats`)."""

STEP_LOGITS, CUT_LOGITS = 4.0, 5.0
"""Copies of a decoding step's logits, float32 as all logits here, and those top-k or top-p adds."""
HELD_LOGITS, FIGURES, DIVERGENCES = 2.0, 2.0, 8.0
"""Copies of them while statistics are taken; of those taken at once each row's own, and groups'."""
PASS_LOGITS, TEMPERATURE_LOGITS, ENTROPY_LOGITS, ROUNDED_LOGITS = 4.0, 1.0, 2.0, 0.5
"""Copies of a pass's logits, its gradient's included; those that a temperature but 1 adds, an
entropy bonus, and logits of 16 bits."""
TIED_GRADIENTS = 3.0
"""Gradients of a tied embedding at once: its own, the head's, and their sum."""


def held(run: Run) -> Parts:
    """What is there in every phase."""
    libraries = CUDA_CONTEXT if run.device == "cuda" else LIBRARIES
    adapted = PEFT if run.recipe.adapters and run.device != "cuda" else 0
    found = {"Python and libraries": libraries + adapted, **run.held()}
    if run.recipe.engine.load_in_4bit:
        s = run.shape
        found["weights"] = NF4 * s.layers * s.block + run.width * (s.embeddings + s.vectors)
    return found


def sampling(run: Run, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    """Reading the prompts of one pass, its last step of decoding, and that step's statistics."""
    s, recipe, width = run.shape, run.recipe, run.width
    at_once = min(prompts, max(1, recipe.engine.rows // group))
    rows = at_once * group
    adapted = run.blocks * sum(a * b for a, b in run.adapted.values())
    merged = width * adapted if recipe.adapter.kind == "dora" and width == 4 else 0

    def caches(rows: int, positions: int) -> float:
        return 2.0 * rows * positions * s.layers * s.keys * width

    read = at_once * run.prompt
    numbers = 3 * s.intermediate + 6 * s.hidden + 2 * s.queries
    yield {
        "merged adapters": merged,
        "KV cache": caches(at_once, run.prompt),
        "activations": read * numbers * width,
    }
    filled = capacity = run.prompt + CHUNK
    while capacity < run.length:
        capacity *= 2
    if run.device == "cpu":  # room that nothing was written to is not resident
        filled = capacity = run.length
    cache = caches(rows, capacity) + caches(rows, filled) / s.layers  # one layer's grows
    probabilities = rows * s.vocabulary
    pooled = GPU_STATS_ELEMENTS if run.gpu else STATS_ELEMENTS
    taken = min(probabilities, max(pooled, group * s.vocabulary))
    each = FIGURES if stats else 0
    each = DIVERGENCES if set(stats) & set(GROUP_STATS) else each
    cut = CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    step = {"merged adapters": merged, "KV cache": cache}
    yield step | {"LM head": 4 * (STEP_LOGITS + cut) * probabilities}
    if stats:
        statistics = 4 * each * taken
        yield step | {"LM head": 4 * HELD_LOGITS * probabilities, "statistics": statistics}


def updating(run: Run) -> Iterator[Parts]:
    """The moments of a pass at which its memory may be highest, with the gradients of the passes
    before; AdamW steps in place."""
    s, recipe, full = run.shape, run.recipe, not run.recipe.adapters
    summed = 4 * run.trained
    for rows, length, places in passes(run):
        tokens = rows * length
        block = _kept(run, tokens, length)
        layers = run.blocks * block  # below them no gradient is needed
        again = 0.0
        passing = 4.0 * tokens * 2 * s.intermediate  # on the way back through one block
        if recipe.engine.gradient_checkpointing:
            inputs = run.blocks * tokens * s.hidden * run.width
            again = min(block, layers - inputs) + passing
            layers = inputs
        copies = PASS_LOGITS + (TEMPERATURE_LOGITS if recipe.temperature != 1 else 0)
        copies += ENTROPY_LOGITS if recipe.entropy else 0
        copies += ROUNDED_LOGITS if run.width < 4 else 0
        logits = 4 * copies * places * s.vocabulary
        head = s.embedding * run.width if full else 0
        yield {"gradients": summed, "LM head": logits, "activations": layers}
        yield {"gradients": summed + head, "activations": layers + again}
        end = (TIED_GRADIENTS if s.tied else 2.0) * head
        yield {"gradients": summed + end, "activations": block + passing}


def _kept(run: Run, tokens: int, length: int) -> float:
    """Bytes that the gradient of a block keeps, of rows of `length`: counted by autograd's saved
    tensors, in blocks of Qwen2's kind. Norms compute in float32, and so do adapters."""
    s, dora = run.shape, run.recipe.adapter.kind == "dora"
    sizes = list(run.adapted.values())
    if run.width == 4:
        wide, square, keys = 16, (14 if sizes else 18), 8
    else:
        wide, square, keys = (10, 19, 4) if sizes else (8, 11, 4)
    numbers = wide * s.intermediate + square * (s.hidden + s.queries) + keys * s.keys
    numbers += 4 * len(sizes) * run.recipe.adapter.rank
    if dora:
        numbers += 2 * run.width * sum(b for _, b in sizes)
    if run.device == "mps":  # its attention has no kernel with a gradient, and keeps the scores
        numbers += 2 * run.width * s.heads * length
    return tokens * numbers
