"""Stateless randomness: every draw is a function of (run seed, step, purpose).

No generator is carried from one step to the next, so a resumed run draws the same numbers as an
uninterrupted one, and two methods of a comparison see the same prompts."""

import hashlib

import numpy as np
import numpy.typing as npt

BLOCK = 128
"""Number of a row's tokens whose uniform numbers come from one stream."""


def seed_of(seed: int, *purpose: int | str) -> int:
    """Return a 64-bit seed for one purpose; distinct purposes give independent streams."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a counter-based NumPy generator (Philox) for one purpose."""
    return np.random.Generator(np.random.Philox(key=seed_of(seed, *purpose)))


def uniforms(seed: int, rows: int, tokens: int) -> npt.NDArray[np.float32]:
    """Return uniform numbers in [0, 1), shape (rows, tokens). Number (r, t) decides token t of row
    r in every engine. It depends only on the seed, r and t, not on the size of the array."""
    blocks = [
        generator(seed, "uniforms", *([block] if block else [])).random((rows, BLOCK), np.float32)
        for block in range(-(-tokens // BLOCK))
    ]
    return np.concatenate(blocks, axis=1)[:, :tokens]
