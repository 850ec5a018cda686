"""A pass as TRL's loss takes it: prompts padded on the left, responses on the right."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ictcli.engine.packing import MicroBatch
from ictcli.engine.update import Update
from ictcli.errors import UserError
from ictcli.types import FloatArray

from .plan import inexpressible


def loss_inputs(
    update: Update,
    batch: MicroBatch | None,
    reference: FloatArray | None,
    device: torch.device,
    cap: float,
) -> tuple[dict[str, Tensor], tuple[Any, Any]]:
    """Inputs of `hooks.loss` for the rows of a pass, cut behind their last wanted token, and where
    in them those tokens are: (row (N,), position (N,)). Without a pass, a row of weight 0. `cap` is
    `engine.importance_cap`.

    UserError for terms of the loss that TRL does not have, which a method of others may set.
    """
    if update.terms:
        raise UserError(*inexpressible(f"the term {', '.join(update.terms)}"))
    if update.objective.entropy:
        raise UserError(*inexpressible("the entropy bonus"))
    if batch is None:
        rows, ends, places = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), ([], [])
    else:
        rows, index = np.unique(batch.rows, return_inverse=True)
        ends = np.zeros(len(rows), dtype=np.int64)
        np.maximum.at(ends, index, batch.positions + 1)
        places = index, batch.positions
    rollouts, S = update.rollouts, int(ends.max())
    prompts = [rollouts.prompt_of(int(row)) for row in rows]
    P = max(map(len, prompts))
    prompt_ids, prompt_mask = (np.zeros((len(rows), P), dtype=np.int64) for _ in range(2))
    for i, prompt in enumerate(prompts):
        prompt_ids[i, P - len(prompt) :], prompt_mask[i, P - len(prompt) :] = prompt, 1
    weights = np.abs(update.weights[rows, :S]) * update.trained[rows, :S]
    arrays: dict[str, np.ndarray] = {
        "prompt_ids": prompt_ids,
        "prompt_mask": prompt_mask,
        "completion_ids": rollouts.tokens[rows, :S].astype(np.int64),
        "completion_mask": (np.arange(S) < ends[:, None]).astype(np.int64),
        "weights": (np.zeros_like(weights) if batch is None else weights).astype(np.float32),
        "advantages": update.token_advantage[rows, :S].astype(np.float32),
    }
    if update.old_logp is not None:
        arrays["old_per_token_logps"] = update.old_logp[rows, :S].astype(np.float32)
    if reference is not None:
        arrays["ref_per_token_logps"] = reference[rows, :S]
    if cap and rollouts.sampler_logp is not None:
        gap = rollouts.logp[rows, :S] - rollouts.sampler_logp[rows, :S]
        arrays["importance_sampling_ratio"] = np.exp(np.minimum(gap, np.float32(np.log(cap))))
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}, places
