"""The torch engine's memory estimate (`ictcli.engine.workload`). Imports no torch.

On a CPU and on MPS it estimates the resident memory of the process, libraries included; on a CUDA
GPU the device's memory, without fragmentation. The numbers of copies of an array were measured on a
CPU with torch 2.13 by `bench/memory.py` and on one GPU by `bench/gpu.py`. MPS was not measured.
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
"""GPU memory in bytes that CUDA takes besides tensors, 100 MiB of it for cuBLAS. Measured only on
an H200 with CUDA 13."""
NF4 = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes of an NF4 weight with its share of the scales. Embeddings and head are not quantised."""
SMALL = 5_000_000
"""Number of parameters below which a model is small: several CPU threads wait for each other longer
than they compute, and the memory that `model.frugal` saves is not worth the time."""
JOINED, JOINED_FROM = 512, 100_000_000
"""On a CPU: maximum tokens of a pass with several rows, and the number of parameters from which
this limit applies (`choose_joined`). Measured at 0.5B with AVX2, on one thread."""
LARGE = 100_000
"""Minimum weights of a layer that uses the kernels of `cpu`, whose calls cost more time."""
PACKED_INPUTS = 512
"""FBGEMM pads the inputs of a layer that it computes to a multiple of this number."""
WORTH_ARRANGING = 64
"""Decoding steps from which `cpu.arranged` saves time: arranging costs what 20 steps save."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 18, 1 << 26
"""Number of logits whose statistics are computed together (`sample`): on a CPU 1 MB, which fits a
core's cache; on a GPU, where each call is a launch, 256 MB."""
PART_ELEMENTS = 1 << 15
"""On a CPU, number of probabilities in a partial sum: 128 KB, to which temporaries are added."""

# How many copies of an array exist at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS, GRAPH_LOGITS = 4.0, 5.0, 1.5
"""Copies in memory of a decoding step's logits; more with top-k or top-p, and in a CUDA graph."""
HELD_LOGITS, ROW_STATS, GROUP_STATS = 2.0, 2.0, 8.0
"""Copies in memory of a step's logits while statistics are computed; then of the logits that one
call handles, for statistics of single rows and for statistics that compare a group's rows."""
PASS_LOGITS, TEMPERATURE_LOGITS, ENTROPY_LOGITS, ROUNDED_LOGITS = 4.0, 1.0, 2.0, 0.5
"""Copies in memory of a pass's logits, gradient included; more with a temperature other than 1,
with an entropy bonus, and if logits have 16 bits."""
TIED_GRADIENTS = 3.0
"""Copies of a tied embedding's gradient: the embedding's, the head's and their sum."""


def held(work: Workload) -> Parts:
    """Return the bytes in use both while sampling and in updates, by what they hold."""
    s, recipe = work.shape, work.recipe
    parts = {"Python and libraries": LIBRARIES + (PEFT if recipe.adapters else 0)} | work.held()
    if work.device == "cuda":
        parts["Python and libraries"] = CUDA_CONTEXT
    if recipe.engine.load_in_4bit:
        parts["weights"] = NF4 * s.layers * s.block + work.width * s.embeddings
    elif _packs(work):  # packed layers keep their weight too, in float16 unless it is tied
        layers, step = _large(work), PACKED_INPUTS
        large = sum(inputs * outputs for inputs, outputs in layers)
        parts["packed weights"] = 2 * sum(-(-a // step) * step * b for a, b in layers)
        parts["weights"] -= 2 * (large - s.tied * (s.embedding >= LARGE) * s.embedding)
    if recipe.engine.sampler == "vllm":
        rows = work.rows_at_once(recipe.prompts, recipe.group)
        parts["vLLM"] = VLLM + s.weights(work.width) + work.cache(rows, work.length)
    return parts


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Parts:
    """Return the bytes that the last decoding step and its statistics add, by what they hold."""
    s, recipe = work.shape, work.recipe
    rows = work.rows_at_once(prompts, group)
    logits = rows * s.vocabulary
    fixed = work.device == "cuda" and recipe.engine.compile != "off" and not s.windowed
    length = work.length * (1 if work.device == "cpu" or fixed else 1.5)  # storage doubles
    number = 4 if work.device == "cpu" else work.width  # attention in float32 (`cache`)
    cut = CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    step = (STEP_LOGITS + cut + GRAPH_LOGITS * fixed) * logits
    pooled = GPU_ELEMENTS if work.gpu else PENDING_ELEMENTS
    pooled = min(logits, max(pooled, group * s.vocabulary))
    compared = HELD_LOGITS * logits + work.statistics(stats, ROW_STATS, GROUP_STATS) * pooled
    arranges = recipe.max_tokens >= WORTH_ARRANGING and not recipe.engine.gradient_checkpointing
    arranged = _large(work) if arranges and not _packs(work) else []
    return {
        "arranged weights": work.width * sum(inputs * outputs for inputs, outputs in arranged),
        "KV cache": work.cache(rows, length, number) * (1 + 1 / s.layers),  # growing copies a layer
        "LM head": 4 * max(step, compared),
    }


def updating(work: Workload) -> Iterator[Parts]:
    """Yield the bytes, by what they hold, at each possible peak of a pass, with the gradients that
    earlier passes summed. AdamW's step needs no more: it works in place."""
    s, recipe, full = work.shape, work.recipe, not work.recipe.adapters
    joined = choose_joined(work.device, recipe.adapters, s.parameters)
    largest = work.largest_pass(joined=joined)
    tokens, summed = largest.tokens, 4 * work.trained
    block, fewer = _kept(work, tokens)
    block += 2 * work.width * largest.repeated * s.queries
    layers = work.blocks * block - (work.blocks - 1) * fewer  # only trained blocks keep activations
    backward, again = 4.0 * tokens * 2 * s.intermediate, 0.0  # through one block
    if recipe.engine.gradient_checkpointing:
        inputs = work.blocks * tokens * s.hidden * work.width
        again, layers = backward, min(inputs + block, layers)  # the last block keeps everything
    copies = PASS_LOGITS + TEMPERATURE_LOGITS * (recipe.temperature != 1)
    copies += ENTROPY_LOGITS * (recipe.entropy > 0) + ROUNDED_LOGITS * (work.width < 4)
    head = s.embedding * work.width if full else 0
    end = summed + (TIED_GRADIENTS if s.tied else 2.0) * head
    logits = 4 * copies * largest.logits * s.vocabulary
    yield {"gradients": summed, "LM head": logits, "activations": layers}
    yield {"gradients": summed + head, "activations": layers + again}
    yield {"gradients": end, "activations": block + backward}


def choose_joined(device: str, adapters: AdapterSettings | None, parameters: int) -> int:
    """Return the maximum tokens of a pass with several rows; 0: `micro_tokens` is the limit.

    On a CPU larger passes with LoRA take more memory and, for a large model, save almost no time.
    When all weights are trained, their gradients cost the same in every pass, however small."""
    lora = adapters is not None and adapters.kind == "lora"
    return JOINED if device == "cpu" and lora and parameters >= JOINED_FROM else 0


def _packs(work: Workload) -> bool:
    """Return whether frozen weights are converted to FBGEMM's layout (`cpu.pack`)."""
    recipe = work.recipe
    on_cpu = work.device == "cpu" and choose_kernels(recipe.engine.kernels) in PACKING
    halved = work.width == 4 and work.shape.dtype in ("bfloat16", "float16")
    return bool(recipe.adapters) and on_cpu and halved


def _large(work: Workload) -> list[tuple[int, int]]:
    """Return (inputs, outputs) of the layers that use the kernels of `cpu`."""
    s = work.shape
    exchanged = platform.machine() in X86 and choose_kernels(work.recipe.engine.kernels) != "plain"
    if work.device != "cpu" or not exchanged or work.width < 4:
        return []
    layers = [*s.linears.values()] * s.layers + [(s.hidden, s.vocabulary)]
    return [(inputs, outputs) for inputs, outputs in layers if inputs * outputs >= LARGE]


def _kept(work: Workload, tokens: int) -> tuple[float, float]:
    """Return the bytes that autograd keeps for one block like Qwen2's, and how many bytes fewer it
    keeps for each block but the last (`model.frugal`). Norms compute in float32; so do peft's
    adapters on 4-bit weights, on copies that are kept."""
    s, adapted, recipe = work.shape, len(work.adapted), work.recipe
    by_peft = adapted > 0 and recipe.engine.load_in_4bit
    wide, square, keys = (10, 19, 4) if by_peft else (8, 11, 4)
    if work.width == 4:
        wide, square, keys = 16, (14 if adapted else 18), 8
    numbers = wide * s.intermediate + square * (s.hidden + s.queries) + keys * s.keys
    numbers += 4 * adapted * recipe.adapter.rank
    if work.device == "mps" or s.capped:  # no fused kernel with a gradient: scores are kept
        numbers += 2 * work.width * s.heads * work.length
    arrays = (1 if by_peft and work.width < 4 else 2) * (s.parameters >= SMALL)
    return tokens * numbers, arrays * work.width * tokens * s.intermediate
