"""At which level a comparison is tested that was looked at before all its seeds were there.

Each report is a look, and a verdict at 5 % after each of several looks is wrong more often than
that: 11.5 % of the time after 3, 5 and 8 seeds. So the 5 % are spent over the looks (Lan and DeMets
1983), as O'Brien and Fleming's boundary does: until the planned seeds are there, little. The share
of them that is there counts as the information, which overstates what is new in a look, since its
problems are those of the last one: fewer verdicts are wrong than the level says, not more.

Seeds beyond the plan spend what is not there. Each such look has half of the rest of BEYOND, so
that all of them together add no more than that. Ours.
"""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from scipy import stats  # pyright: ignore[reportMissingTypeStubs]

from ictcli.compare.crossed import LEVEL
from ictcli.types import FloatArray

BEYOND = 0.02
_normal: Any = cast(Any, stats).norm


def spent(looks: Sequence[int], planned: int) -> list[float]:
    """The chance of a false verdict that is spent with each look, at so many seeds, rising."""
    beyond = [number for number in looks if number > planned]
    return [
        LEVEL + BEYOND * (1 - 0.5 ** (beyond.index(number) + 1))
        if number > planned
        else 4 * float(_normal.sf(_normal.isf(LEVEL / 4) / np.sqrt(number / planned)))
        for number in looks
    ]


def level_of(looks: Sequence[int], planned: int) -> float:
    """The level of the last look, at which all of them together spend what is theirs.

    The boundary is that of a Brownian motion (Armitage, McPherson and Rowe 1969): its density among
    paths that crossed at no earlier look is carried from look to look."""
    information = np.asarray(looks, dtype=np.float64) / planned
    increments: FloatArray = np.diff(spent(looks, planned), prepend=0.0)
    grid: FloatArray = np.asarray(np.linspace(-8.0, 8.0, 1601) * np.sqrt(information[-1]))
    width = grid[1] - grid[0]
    density: FloatArray = _normal.pdf(grid, 0.0, np.sqrt(information[0]))
    bound: float = float(_normal.isf(increments[0] / 2) * np.sqrt(information[0]))
    for step, increment in zip(np.diff(information).tolist(), increments[1:].tolist(), strict=True):
        inside: FloatArray = np.where(np.abs(grid) < bound, density, 0.0) * width
        density = _normal.pdf(grid[:, None], grid[None, :], np.sqrt(step)) @ inside
        beyond: FloatArray = np.cumsum(density[::-1])[::-1] * width  # above each place, on one side
        bound = cast(Any, np).interp(-increment / 2, -beyond[800:], grid[800:] - width / 2)
    return 2 * float(_normal.sf(bound / np.sqrt(looks[-1] / planned)))
