"""The torch engine's memory model (`ictcli.engine.workload`). Imports no torch.

On a CPU and on MPS it estimates the resident set of the process, libraries included; on a CUDA GPU
the device's memory, without the allocator's fragments. How many copies of an array are held at once
was measured on a CPU with torch 2.13 by `bench/memory.py` and on one GPU by `bench/gpu.py`. MPS was
not measured.
"""

import platform
from collections.abc import Iterator

from ictcli.engine.dtype import PACKING, X86, choose_kernels
from ictcli.engine.workload import Parts, Workload
from ictcli.recipe.tables import AdapterSettings

LIBRARIES, PEFT = 440 << 20, 20 << 20
"""Resident bytes of Python with torch and transformers, and of peft."""
VLLM = 320 << 20
"""Resident bytes of vLLM 0.32 without its weights and cache, on a CPU."""
CUDA_CONTEXT = 960 << 20
"""Bytes of a GPU that CUDA takes besides tensors, 100 MiB for cuBLAS: of an H200 with CUDA 13,
the one card that was measured."""
NF4 = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes of a packed weight with its share of the scales; embeddings and head are not packed."""
SMALL = 5_000_000
"""Parameters below which several CPU threads wait for each other longer than they compute, and time
is worth more than what `model.frugal` spares."""
JOINED, JOINED_FROM = 512, 100_000_000
"""Tokens up to which a pass joins rows, and parameters of a model from which that holds
(`choose_joined`). Measured at 0.5B with AVX2, on one thread."""
LARGE = 100_000
"""Weights of a layer from which another library is worth a call that costs more (`cpu`)."""
PACKED_INPUTS = 512
"""FBGEMM packs a layer's weights in float16, its inputs filled up to a multiple of so many."""
WORTH_ARRANGING = 64
"""Decoding steps from which `cpu.arranged` is worth what some 20 steps save."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 18, 1 << 26
"""Logits whose statistics are taken at once (`sample`): 1 MB, which a core's cache holds; on a GPU,
which has no cache to fit and launches every call, 256 MB."""
PART_ELEMENTS = 1 << 15
"""Probabilities of which a CPU takes a part of a sum: 128 KB, and what is made of them besides."""

# Copies held at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS, GRAPH_LOGITS = 4.0, 5.0, 1.5
"""Multiples of a decoding step's logits, plus those with top-k or top-p, and in a CUDA graph."""
HELD_LOGITS, ROW_STATS, GROUP_STATS = 2.0, 2.0, 8.0
"""Multiples of a step's logits while statistics are taken; and of the logits taken at once, for
statistics of a row and of a group."""
PASS_LOGITS, TEMPERATURE_LOGITS, ENTROPY_LOGITS, ROUNDED_LOGITS = 4.0, 1.0, 2.0, 0.5
"""Multiples of a pass's logits, gradient included; and in addition with a temperature other than 1,
with an entropy bonus, and for logits of 16 bits."""
TIED_GRADIENTS = 3.0
"""Multiple of a tied embedding's gradient: its own, the head's and their sum."""


def held(work: Workload) -> Parts:
    """Return what is held in every phase."""
    s, recipe = work.shape, work.recipe
    parts = {"Python and libraries": LIBRARIES + (PEFT if recipe.adapters else 0)} | work.held()
    if work.device == "cuda":
        parts["Python and libraries"] = CUDA_CONTEXT
    if recipe.engine.load_in_4bit:
        parts["weights"] = NF4 * s.layers * s.block + work.width * s.embeddings
    elif _packs(work):  # what is read as it is stays float32, the rest is held in 16 bits
        layers, step = _large(work), PACKED_INPUTS
        large = sum(inputs * outputs for inputs, outputs in layers)
        parts["packed weights"] = 2 * sum(-(-a // step) * step * b for a, b in layers)
        parts["weights"] -= 2 * (large - s.tied * (s.embedding >= LARGE) * s.embedding)
    if recipe.engine.sampler == "vllm":
        rows = work.rows_at_once(recipe.prompts, recipe.group)
        parts["vLLM"] = VLLM + s.weights(work.width) + work.cache(rows, work.length)
    return parts


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Parts:
    """Return what the last decoding step takes, and the statistics on it."""
    s, recipe = work.shape, work.recipe
    rows = work.rows_at_once(prompts, group)
    logits = rows * s.vocabulary
    fixed = work.device == "cuda" and recipe.engine.compile != "off" and not s.windowed
    length = work.length * (1 if work.device == "cpu" or fixed else 1.5)  # storage doubles
    number = 4 if work.device == "cpu" else work.width  # there attention is float32 (`cache`)
    cut = CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    step = (STEP_LOGITS + cut + GRAPH_LOGITS * fixed) * logits
    pooled = GPU_ELEMENTS if work.gpu else PENDING_ELEMENTS
    pooled = min(logits, max(pooled, group * s.vocabulary))
    compared = HELD_LOGITS * logits + work.statistics(stats, ROW_STATS, GROUP_STATS) * pooled
    arranges = recipe.max_tokens >= WORTH_ARRANGING and not recipe.engine.gradient_checkpointing
    arranged = _large(work) if arranges and not _packs(work) else []
    return {
        "arranged weights": work.width * sum(inputs * outputs for inputs, outputs in arranged),
        "KV cache": work.cache(rows, length, number) * (1 + 1 / s.layers),  # grows by copying
        "LM head": 4 * max(step, compared),
    }


def updating(work: Workload) -> Iterator[Parts]:
    """Yield the moments of a pass at which its memory may peak, with the summed gradients of
    earlier passes. AdamW steps in place."""
    s, recipe, full = work.shape, work.recipe, not work.recipe.adapters
    joined = choose_joined(work.device, recipe.adapters, s.parameters)
    largest = work.largest_pass(joined=joined)
    tokens, summed = largest.tokens, 4 * work.trained
    block, fewer = _kept(work, tokens)
    block += 2 * work.width * largest.repeated * s.queries
    layers = work.blocks * block - (work.blocks - 1) * fewer  # earlier ones need no gradient
    backward, again = 4.0 * tokens * 2 * s.intermediate, 0.0  # through one block
    if recipe.engine.gradient_checkpointing:
        inputs = work.blocks * tokens * s.hidden * work.width
        again, layers = backward, min(inputs + block, layers)  # the last block keeps its own
    copies = PASS_LOGITS + TEMPERATURE_LOGITS * (recipe.temperature != 1)
    copies += ENTROPY_LOGITS * (recipe.entropy > 0) + ROUNDED_LOGITS * (work.width < 4)
    head = s.embedding * work.width if full else 0
    end = summed + (TIED_GRADIENTS if s.tied else 2.0) * head
    logits = 4 * copies * largest.logits * s.vocabulary
    yield {"gradients": summed, "LM head": logits, "activations": layers}
    yield {"gradients": summed + head, "activations": layers + again}
    yield {"gradients": end, "activations": block + backward}


def choose_joined(device: str, adapters: AdapterSettings | None, parameters: int) -> int:
    """Return the tokens up to which a pass of an update joins rows; 0: `micro_tokens` alone limits
    it.

    On a CPU a larger pass below LoRA takes more memory and, for a large model, saves almost no
    time. All weights' gradients cost the same in every pass, however small."""
    lora = adapters is not None and adapters.kind == "lora"
    return JOINED if device == "cpu" and lora and parameters >= JOINED_FROM else 0


def _packs(work: Workload) -> bool:
    """Return whether frozen weights are packed once a run (`cpu.pack`)."""
    recipe = work.recipe
    on_cpu = work.device == "cpu" and choose_kernels(recipe.engine.kernels) in PACKING
    halved = work.width == 4 and work.shape.dtype in ("bfloat16", "float16")
    return bool(recipe.adapters) and on_cpu and halved


def _large(work: Workload) -> list[tuple[int, int]]:
    """Return (in, out) of the layers that are packed or arranged."""
    s = work.shape
    exchanged = platform.machine() in X86 and choose_kernels(work.recipe.engine.kernels) != "plain"
    if work.device != "cpu" or not exchanged or work.width < 4:
        return []
    layers = [*s.linears.values()] * s.layers + [(s.hidden, s.vocabulary)]
    return [(inputs, outputs) for inputs, outputs in layers if inputs * outputs >= LARGE]


def _kept(work: Workload, tokens: int) -> tuple[float, float]:
    """Return the bytes that autograd saves for the gradient of one block like Qwen2's, and how many
    fewer of each but the last (`model.frugal`). Norms compute in float32, and in 4 bits so do
    peft's adapters, of copies that are saved."""
    s, adapted, recipe = work.shape, len(work.adapted), work.recipe
    by_peft = adapted > 0 and recipe.engine.load_in_4bit
    wide, square, keys = (10, 19, 4) if by_peft else (8, 11, 4)
    if work.width == 4:
        wide, square, keys = 16, (14 if adapted else 18), 8
    numbers = wide * s.intermediate + square * (s.hidden + s.queries) + keys * s.keys
    numbers += 4 * adapted * recipe.adapter.rank
    if work.device == "mps" or s.capped:  # no kernel with a gradient: scores are kept
        numbers += 2 * work.width * s.heads * work.length
    arrays = (1 if by_peft and work.width < 4 else 2) * (s.parameters >= SMALL)
    return tokens * numbers, arrays * work.width * tokens * s.intermediate
