"""How many floating-point operations a training step takes on a model, by its sizes.

Counted are the products of matrices and the scores of attention. Every sampled token goes through
all blocks and the LM head. The update runs the rollouts that carry a gradient through all blocks,
but only trained tokens through the last block's MLP and the head; backward is twice forward, once
with adapters, whose base needs no gradient. Left out is what moves memory: softmax, statistics,
norms, the optimiser, and the weights that are read for each decoded token.
"""

from ictcli.engine.packing import is_worth_sharing
from ictcli.engine.shape import ModelShape
from ictcli.recipe import Recipe
from ictcli.types import FloatArray


def step_operations(
    recipe: Recipe,
    shape: ModelShape,
    prompt: float,
    length: FloatArray,
    signal: FloatArray,
    kept: FloatArray,
) -> tuple[FloatArray, FloatArray]:
    """(steps,) operations of sampling and of the updates. `length` is the mean tokens of a
    response, `signal` the share of groups whose rewards differ, and `kept` the share of tokens that
    is trained."""
    P, G = recipe.prompts, recipe.group

    def blocks(prompts: FloatArray | float, rows: FloatArray | float) -> FloatArray:
        tokens = prompts * prompt + rows * length
        looks_back = prompts * prompt**2 / 2 + rows * length * (prompt + length / 2)
        return shape.layers * (2 * shape.block * tokens + 4 * shape.queries * looks_back)

    signal = signal if recipe.objective.skips_without_signal else 0 * signal + 1
    rows = P * G * signal
    shares = is_worth_sharing((G - 1) * prompt, G * (prompt + length.mean()))
    prompts = P * signal if shares else rows
    unseen = prompts * prompt + rows * length * (1 - kept)
    of_mlp = 2 * 3 * shape.hidden * shape.intermediate
    head = 2 * shape.embedding * length  # of a row
    forward = blocks(prompts, rows) - of_mlp * unseen + head * kept * rows
    passes = (2 if recipe.adapters else 3) + (recipe.kl > 0)
    sampled = blocks(P, P * G) + head * P * G
    return sampled, passes * recipe.update.epochs * forward
