"""The torch engine's memory model (`ictcli.engine.workload.MemoryModel`). Imports no torch.

On a CPU and on MPS it estimates the resident set of the process, libraries included; on a CUDA GPU
the device's memory, without the allocator's fragments. How many copies of an array are held at once
was measured on a CPU with torch 2.13 by `bench/memory.py`, which prints estimates beside
measurements, and by `bench/gpu.py` on one GPU. On other devices the same counts are assumed and
were not measured. Neither was what several processes change.
"""

import platform
from collections.abc import Iterator
from dataclasses import replace

from ictcli.algorithm.quantities import statistic
from ictcli.engine.dtype import PACKING, X86, choose_kernels
from ictcli.engine.workload import Parts, Workload
from ictcli.recipe.tables import AdapterSettings, EngineSettings

PACKS_ON: tuple[str, ...] = ("cuda",)
LIBRARIES, PEFT = 440 << 20, 20 << 20
"""Resident bytes of Python with torch and transformers, and of peft."""
VLLM = 320 << 20
"""Resident bytes of vLLM 0.32 beside its weights and cache, on a CPU."""
CUDA_CONTEXT = 960 << 20
"""Bytes of a GPU that CUDA takes beside tensors, 100 MiB of them cuBLAS's: of an H200 with CUDA 13,
the one card that was measured."""
NF4 = (4 + 8 / 64 + 32 / (64 * 256)) / 8
"""Bytes of a packed weight with its share of the scales; embeddings and head are not packed."""
CHUNK = 32
"""Free positions of a new cache, whose storage doubles when full (`cache.GrowingLayer`)."""
SMALL = 5_000_000
"""Parameters below which several CPU threads wait for each other longer than they compute, and time
is worth more than what `model.frugal` spares."""
JOINED, JOINED_FROM = 512, 100_000_000
"""Tokens up to which a pass joins rows, and parameters of a model from which that holds
(`choose_joined`). Measured at 0.5B with AVX2, on one thread."""
GATED = ("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "granite", "olmo2")
"""Families of which `model.is_gated` holds. Of others the estimate is too high, where it does."""
LARGE = 1 << 18
"""Weights of a layer from which another library is worth a call that costs more (`cpu`)."""
PACKED_INPUTS = 512
"""FBGEMM packs a layer's weights in float16, its inputs filled up to a multiple of so many."""
WORTH_ARRANGING = 64
"""Decoding steps from which `cpu.arranged` is worth what some 20 steps save."""
PENDING_ELEMENTS, GPU_ELEMENTS = 1 << 18, 1 << 26
"""Logits whose statistics are taken at once (`sample`): 1 MB, which a core's cache holds; on a GPU,
which has no cache to fit and launches every call, 256 MB."""

# Copies held at once. All logits are float32.
STEP_LOGITS, CUT_LOGITS = 4.0, 5.0
"""Of a decoding step's logits, and in addition with top-k or top-p."""
HELD_LOGITS, ROW_STATS, GROUP_STATS_COPIES = 2.0, 2.0, 8.0
"""Of a step's logits while statistics are taken; and of the logits taken at once, for statistics of
a row and of a group."""
PASS_LOGITS, TEMPERATURE_LOGITS, ENTROPY_LOGITS, ROUNDED_LOGITS = 4.0, 1.0, 2.0, 0.5
"""Of a pass's logits, gradient included; and in addition with a temperature other than 1, with an
entropy bonus, and for logits of 16 bits."""
TIED_GRADIENTS = 3.0
"""Of a tied embedding's gradient: its own, the head's and their sum."""


def held(work: Workload) -> Parts:
    """Held in every phase."""
    libraries = CUDA_CONTEXT if work.device == "cuda" else LIBRARIES
    adapted = PEFT if work.recipe.adapters and work.device != "cuda" else 0
    parts = {"Python and libraries": libraries + adapted, **work.held()}
    parts["packed weights"], less = _packed(work)
    parts["weights"] -= less
    if work.recipe.engine.load_in_4bit:
        s = work.shape
        parts["weights"] = NF4 * s.layers * s.block + work.width * (s.embeddings + s.vectors)
    if work.recipe.engine.sampler == "vllm":
        rows = work.groups_at_once(work.recipe.prompts, work.recipe.group) * work.recipe.group
        parts["vLLM"] = VLLM + work.shape.weights(work.width) + work.cache(rows, work.length)
    shards, spread = work.layout.shards, ["weights"]
    if shards > 1 and not work.recipe.adapters:  # the parts are float32, and their own masters
        parts |= {"weights": work.shape.weights(4), "float32 masters": 0}
        parts["reference policy"] = 4 * work.trained if work.recipe.kl > 0 else 0
        spread += ["reference policy", "AdamW's moments"]
    return parts | {name: parts[name] / shards for name in spread if shards > 1}


def _gathered(work: Workload) -> Parts:
    if work.layout.shards == 1:
        return {}
    return {"gathered weights": work.shape.weights(work.width)}


def _some_blocks(work: Workload) -> float:
    """Bytes of a block that is put together, its message included, and of what is in none."""
    return work.width * (2 * work.shape.block + work.shape.embeddings)


def sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    """Reading the prompts of a pass, its last decoding step, and that step's statistics."""
    for parts in _sampling(work, work.layout.share(prompts), group, stats):
        yield parts | _gathered(work)


def _sampling(work: Workload, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
    s, recipe, width = work.shape, work.recipe, work.width
    at_once = work.groups_at_once(prompts, group)
    rows = at_once * group

    number = 4 if work.device == "cpu" else width  # there attention is float32 (`cache`)
    read = at_once * work.prompt
    numbers = 3 * s.intermediate + 6 * s.hidden + 2 * s.queries
    yield {
        "arranged weights": _arranged(work),
        "KV cache": work.cache(at_once, work.prompt, number),
        "activations": read * numbers * width,
    }
    fixed = work.device == "cuda" and recipe.engine.compile != "off" and not s.windowed
    filled = capacity = work.prompt + CHUNK
    while capacity < work.length:
        capacity *= 2
    if work.device == "cpu" or fixed:  # unwritten storage is not resident, or there is none
        filled = capacity = work.length
    growth = work.cache(rows, filled, number) / s.layers  # a layer grows by copying
    cache = work.cache(rows, capacity, number) + growth
    probabilities = rows * s.vocabulary
    pooled = GPU_ELEMENTS if work.gpu else PENDING_ELEMENTS
    taken = min(probabilities, max(pooled, group * s.vocabulary))
    each = ROW_STATS if stats else 0
    each = GROUP_STATS_COPIES if any(statistic(name).kind == "group" for name in stats) else each
    cut = CUT_LOGITS if recipe.sampling.top_k or recipe.sampling.top_p < 1 else 0
    step = {"arranged weights": _arranged(work), "KV cache": cache}
    if fixed:
        step["CUDA graph"] = (4 + width) * probabilities
    yield step | {"LM head": 4 * (STEP_LOGITS + cut) * probabilities}
    if stats:
        statistics = 4 * each * taken
        yield step | {"LM head": 4 * HELD_LOGITS * probabilities, "statistics": statistics}


def _arranged(work: Workload) -> int:
    recipe = work.recipe
    spared = recipe.engine.gradient_checkpointing or _packed(work)[0]
    if recipe.max_tokens < WORTH_ARRANGING or spared:
        return 0
    return work.width * sum(inputs * outputs for inputs, outputs in _large(work))


def _packed(work: Workload) -> tuple[float, float]:
    """Bytes of the frozen weights that are packed, and how many fewer their float16 takes than
    float32 (`cpu.pack`)."""
    recipe, shape = work.recipe, work.shape
    packs = work.device == "cpu" and choose_kernels(recipe.engine.kernels) in PACKING
    fits = packs and work.width == 4 and shape.dtype in ("bfloat16", "float16")
    if not (fits and recipe.adapters):
        return 0, 0
    layers, step = _large(work), PACKED_INPUTS
    numbers = sum(inputs * outputs for inputs, outputs in layers)
    filled = sum(-(-inputs // step) * step * outputs for inputs, outputs in layers)
    head = shape.embedding if shape.embedding >= LARGE else 0
    return 2 * filled, 2 * (numbers - (head if shape.tied else 0))


def _large(work: Workload) -> list[tuple[int, int]]:
    """(in, out) of the layers that are packed or arranged."""
    s = work.shape
    exchanged = platform.machine() in X86 and choose_kernels(work.recipe.engine.kernels) != "plain"
    if work.device != "cpu" or not exchanged or work.width < 4:
        return []
    layers = [*s.linears.values()] * s.layers + [(s.hidden, s.vocabulary)]
    return [(inputs, outputs) for inputs, outputs in layers if inputs * outputs >= LARGE]


def updating(work: Workload) -> Iterator[Parts]:
    """The moments of a pass at which its memory may peak, with the summed gradients of earlier
    passes. AdamW steps in place."""
    recipe, shards = work.recipe, work.layout.shards
    minibatch = work.layout.share(recipe.update.minibatch or recipe.prompts)
    updates = recipe.update.model_copy(update={"minibatch": minibatch})
    own = replace(work, recipe=recipe.model_copy(update={"update": updates}))
    if shards == 1:
        yield from _updating(own)
        return
    spread = 0 if recipe.adapters else 4 * work.trained * (1 - 1 / shards)
    for parts in _updating(own):
        gradients = parts["gradients"] - spread
        yield parts | {"gradients": gradients, "gathered weights": _some_blocks(work)}
    if recipe.kl > 0:
        yield _gathered(work)


def _updating(work: Workload) -> Iterator[Parts]:
    s, recipe, full = work.shape, work.recipe, not work.recipe.adapters
    summed = 4 * work.trained
    joined = choose_joined(work.device, recipe.adapters, recipe.engine, s.parameters)
    if joined and (recipe.kl > 0 or recipe.engine.off_policy):  # larger passes, of no gradient
        most = max(one.tokens for one in work.passes())
        yield {"gradients": summed, "activations": 4.0 * most * 3 * s.intermediate}
    for one in work.passes(joined=joined):
        tokens = one.tokens
        block = _kept(work, tokens, one.length) + 2 * work.width * one.repeated * s.queries
        less = _made_again(work, tokens)
        layers = work.blocks * block - (work.blocks - 1) * less  # earlier ones need no gradient
        again = 0.0
        passing = 4.0 * tokens * 2 * s.intermediate  # the backward pass through one block
        if recipe.engine.gradient_checkpointing:
            inputs = work.blocks * tokens * s.hidden * work.width
            again, layers = passing, min(inputs + block, layers)  # the last block keeps its own
        copies = PASS_LOGITS + (TEMPERATURE_LOGITS if recipe.temperature != 1 else 0)
        copies += ENTROPY_LOGITS if recipe.entropy else 0
        copies += ROUNDED_LOGITS if work.width < 4 else 0
        logits = 4 * copies * one.logits * s.vocabulary
        head = s.embedding * work.width if full else 0
        yield {"gradients": summed, "LM head": logits, "activations": layers}
        yield {"gradients": summed + head, "activations": layers + again}
        end = (TIED_GRADIENTS if s.tied else 2.0) * head
        yield {"gradients": summed + end, "activations": block + passing}


def choose_joined(
    device: str, adapters: AdapterSettings | None, engine: EngineSettings, parameters: int
) -> int:
    """Tokens up to which a pass of an update joins rows; 0: `micro_tokens` alone limits it.

    On a CPU a larger pass below LoRA takes memory and, of a large model, saves next to no time. All
    weights' gradients cost the same in every pass, however small. A number of rows is the user's
    choice, and processes that share weights take their passes together.
    """
    if device != "cpu" or engine.shard or isinstance(engine.micro_batch, int):
        return 0
    return JOINED if adapters is not None and parameters >= JOINED_FROM else 0


def _made_again(work: Workload, tokens: int) -> float:
    """Bytes of a block's MLP that autograd does not save, but of the last block (`model.frugal`).
    peft's own layers, of 4 bits, read it in float32, a copy that is saved."""
    s = work.shape
    if s.kind not in GATED or s.parameters < SMALL:
        return 0
    arrays = 1 if _by_peft(work) and work.width < 4 else 2
    return arrays * work.width * tokens * s.intermediate


def _by_peft(work: Workload) -> bool:
    """Whether adapters compute in peft's own layers: in float32, of copies that are saved."""
    recipe = work.recipe
    return bool(recipe.adapters) and recipe.engine.load_in_4bit


def _kept(work: Workload, tokens: int, length: int) -> float:
    """Bytes that autograd saves for the gradient of one block like Qwen2's, for rows of `length`.
    Norms compute in float32."""
    s = work.shape
    sizes = list(work.adapted.values())
    if work.width == 4:
        wide, square, keys = 16, (14 if sizes else 18), 8
    else:
        wide, square, keys = (10, 19, 4) if _by_peft(work) else (8, 11, 4)
    numbers = wide * s.intermediate + square * (s.hidden + s.queries) + keys * s.keys
    numbers += 4 * len(sizes) * work.recipe.adapter.rank
    if work.device == "mps" or s.capped:  # no kernel with a gradient: scores are kept
        numbers += 2 * work.width * s.heads * length
    return tokens * numbers
