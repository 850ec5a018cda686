"""What accuracy costs in a made comparison."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ictcli.compare.efficiency import AREA, AT_BUDGET, CORRECT, TO_THRESHOLD
from ictcli.compare.statistics import over_seeds

SPENT = {"rollouts": 64.0, "CPU seconds": 1.9, "dense steps of Qwen2.5-0.5B": 0.8}
"""Of a step, by unit."""


def made_efficiency(
    labels: Sequence[str],
    seeds: int,
    curves: Mapping[str, Mapping[str, Any]],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """`curves`: by label, with a point for each step."""
    steps = len(curves[labels[0]]["step"])
    return {
        "threshold": 0.4,
        "window": 7,
        "model": "Qwen2.5-0.5B",
        "sampling": 0.25,
        "units": {
            unit: {
                "budget": scale * steps,
                "step": {v: scale * (1 + 0.1 * at) for at, v in enumerate(labels)},
                "reached": dict.fromkeys(labels, seeds - 1),
                "figures": {
                    name: {
                        "values": {v: asdict(over_seeds(rng.random(seeds))) for v in labels},
                        "differences": {"ict": asdict(over_seeds(rng.random(seeds) - 0.5))},
                    }
                    for name in (TO_THRESHOLD, AREA, AT_BUDGET)
                },
            }
            for unit, scale in SPENT.items()
        },
        "curves": {
            CORRECT: {
                v: {
                    **curves[v],
                    "spent": {
                        unit: [scale * step for step in range(1, steps + 1)]
                        for unit, scale in SPENT.items()
                    },
                }
                for v in labels
            }
        },
    }
