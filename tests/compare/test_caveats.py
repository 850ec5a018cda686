"""What a report notes beside its figures."""

import numpy as np

from ictcli.compare.notes import at_bounds


def test_a_figure_at_its_ceiling_is_noted() -> None:
    scores = {"pass@1": {"ict": np.full((2, 4), 0.99), "grpo": np.full((2, 4), 0.5)}}
    (note,) = at_bounds(scores, ["ict", "grpo"])
    assert note.startswith("pass@1 of ict is at its ceiling")
