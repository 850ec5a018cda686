"""The peaks of a run on the MLX engine, in bytes by part.

How many copies of something are held at once was measured, not derived: on a CPU with mlx 0.32.4,
by `bench/memory.py`, which shows plan and measurement side by side. On Metal it is an upper bound:
the kernel that reads the prompts holds no scores there. (A pass with a gradient holds them on Metal
too: mlx falls back to the same operations.) Freed buffers that the allocator keeps, an eighth of
the limit at most, come on top.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ictcli.algorithm.selection import share_count
from ictcli.evaluation.evaluate import CHUNK
from ictcli.packing import MAX_LOGITS, bucket
from ictcli.planning.shapes import Shape
from ictcli.recipe import Recipe
from ictcli.step import wanted_stats
from ictcli.types import GROUP_STATS

Parts = dict[str, float]
"""Bytes by part."""

PROMPT_TOKENS = 256
"""Taken where nothing is said; what a question of GSM8K or MATH seldom has."""

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


@dataclass(frozen=True)
class Plan:
    """Bytes by part at the peak of each phase, and what they are of."""

    shape: Shape
    trained: int
    prompt: int
    """Tokens a prompt is taken to have."""
    phases: dict[str, Parts]
    """sampling, evaluating, updating."""

    def peak(self, phase: str = "") -> float:
        """Of one phase, or of all."""
        return max(sum(self.phases[name].values()) for name in ([phase] if phase else self.phases))


@dataclass(frozen=True)
class _Run:
    """What the parts of a plan are computed of."""

    recipe: Recipe
    shape: Shape
    gpu: bool
    prompt: int

    @property
    def width(self) -> int:
        """Bytes of a number: `ictcli_mlx.model._dtype`."""
        dtype = self.recipe.engine.dtype
        return 2 if dtype == "bfloat16" or (dtype == "auto" and self.gpu) else 4

    @property
    def compiled(self) -> bool:
        settings = self.recipe.engine
        return settings.compile == "on" or (settings.compile == "auto" and self.gpu)

    @property
    def length(self) -> int:
        return self.prompt + self.recipe.max_tokens

    @property
    def adapted(self) -> dict[str, tuple[int, int]]:
        """(in, out) of the linear layers of a block that get adapters."""
        if not self.recipe.adapters:
            return {}
        wanted, known = set(self.recipe.adapter.targets), self.shape.linears
        return {k: v for k, v in known.items() if not wanted or {k, k.split(".")[1]} & wanted}

    @property
    def blocks(self) -> int:
        """How many of the last blocks are trained."""
        wanted = self.recipe.adapter.layers if self.recipe.adapters else 0
        return min(wanted or self.shape.layers, self.shape.layers)

    @property
    def block(self) -> int:
        """Trained numbers of a block."""
        if not self.recipe.adapters:
            return self.shape.block
        rank, dora = self.recipe.adapter.rank, self.recipe.adapter.kind == "dora"
        return sum(rank * (a + b) + dora * b for a, b in self.adapted.values())

    @property
    def trained(self) -> int:
        return self.blocks * self.block if self.recipe.adapters else self.shape.parameters

    def held(self) -> Parts:
        """What is there in every phase."""
        full = not self.recipe.adapters
        return {
            "weights": self.shape.weights(self.width),
            "adapters": 0 if full else 4 * self.trained,
            "reference policy": self.width * self.trained if full and self.recipe.kl > 0 else 0,
            "float32 masters": 4 * self.trained if full and self.width < 4 else 0,
            "AdamW's moments": 8 * self.trained,
        }

    def kept(self, tokens: int, length: int) -> float:
        """Bytes of activations of a block that its gradient needs, of rows of `length`."""
        s, width = self.shape, self.width
        numbers = 4 * s.hidden + 4 * s.queries + 2 * s.keys + 5 * s.intermediate + s.heads * length
        return KEPT * tokens * numbers * width

    def extra(self, tokens: int) -> float:
        """The same, of what adapters add to one block: float32 copies of their inputs where the
        model computes in 16 bits, and DoRA's unscaled outputs and unpacked weights."""
        sizes = self.adapted.values()
        casts = 4 * tokens * sum(a for a, _ in sizes) if self.width < 4 else 0
        if self.recipe.adapter.kind != "dora":
            return casts
        unpacked = sum(a * b for a, b in sizes) if self.shape.bits else 0
        return casts + self.width * (tokens * sum(b for _, b in sizes) + unpacked)


def plan(recipe: Recipe, shape: Shape, *, gpu: bool, prompt: int = PROMPT_TOKENS) -> Plan:
    """The peaks of a run whose prompts have `prompt` tokens, where the context leaves as many, and
    whose responses all run to max_tokens."""
    room = shape.context - recipe.max_tokens
    run = _Run(recipe, shape, gpu, prompt if room < 1 else min(prompt, room))
    held, stats = run.held(), wanted_stats(recipe)
    problems = min(recipe.eval.problems, CHUNK)
    phases = {
        "sampling": [held | part for part in _sampling(run, recipe.prompts, recipe.group, stats)],
        "evaluating": [held | part for part in _sampling(run, problems, recipe.eval.n, ())],
        "updating": [held | part for part in _updating(run)],
    }
    worst = {name: max(found, key=lambda x: sum(x.values())) for name, found in phases.items()}
    return Plan(shape, run.trained, run.prompt, worst)


def _sampling(run: _Run, prompts: int, group: int, stats: tuple[str, ...]) -> Iterator[Parts]:
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
    yield {"fused adapters": fused, "caches": cache, "activations": read * numbers * width}
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
        yield {"caches": cache, "activations": DORA_BLOCKS * adapted}
    yield {
        "fused adapters": fused,
        "caches": cache * (1 + 1 / s.layers),  # a layer's grows while the old one is there
        "logits": 4 * (copies * probabilities + each * taken),
        "activations": run.kept(rows, run.length),
    }


def _updating(run: _Run) -> Iterator[Parts]:
    """The moments of a pass at which its memory may be highest, and the step of AdamW. Gradients
    are those of the passes before, summed, and the pass's own."""
    s, recipe, full = run.shape, run.recipe, not run.recipe.adapters
    summed = 4 * run.trained
    head = s.embedding * run.width if full else 0
    for rows, length, places in _passes(run):
        tokens = rows * length
        block = run.kept(tokens, length) + run.extra(tokens)
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
        yield {"gradients": summed, "logits": logits, "activations": layers}
        yield {"gradients": summed + head / 2, "activations": layers + again + passing}
        gradients = 2 * summed + (head if s.tied else 0)
        yield {"gradients": gradients, "activations": block + passing}
    step = 4 * STEP_EMBEDDINGS * s.embeddings if full and run.width == 4 else 0
    yield {"gradients": summed, "step of AdamW": step}


def _passes(run: _Run) -> Iterator[tuple[int, int, int]]:
    """(rows, length, places of the LM head) of the passes of a dense step and of one that keeps a
    share, as `ictcli.packing` cuts them from rows of full length."""
    recipe, T = run.recipe, run.recipe.max_tokens
    share = getattr(recipe.options(), "keep", None)
    if recipe.rule.name == "frequent" and share is not None:  # all but the share
        share = 1 - share
    shares = {1.0 if share is None else share}
    if recipe.rule.dense_warmup and recipe.warmup:
        shares.add(1.0)
    batch = (recipe.update.minibatch or recipe.prompts) * recipe.group
    limit = max(MAX_LOGITS // run.shape.vocabulary, 1)
    for share in shares:
        places = min(max(share_count(share, T), 1), limit)  # a row of more runs several times
        rows = max(1, min(batch, recipe.engine.micro_tokens // run.length, limit // places))
        if run.compiled:
            yield bucket(rows), bucket(run.length), bucket(rows * places, 2)
        else:
            yield rows, run.length, rows * places
