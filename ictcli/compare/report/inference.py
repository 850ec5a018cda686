"""How the report's intervals and p are made, and where the ways of it are from."""

from __future__ import annotations

from typing import Any

from ictcli.compare.report.document import Section, Text, mapping
from ictcli.compare.report.numbers import p_value
from ictcli.compare.statistics import RESAMPLES


def inference(result: dict[str, Any]) -> Section:
    """One paragraph, of what was done with these runs."""
    title = "How intervals and p are made"
    every = [one for mine in mapping(result["estimates"]).values() for one in mine.values()]
    if not every:
        return Section("inference", title, [Text("No run was evaluated.", "absent")])
    if max(one["seeds"] for one in every) > 1:
        told = (
            "Seeds and problems are crossed random effects: every run meets the same problems, so "
            "a figure is a mean plus the luck of its seed, of its problem and of what is left, and "
            "a claim has to hold for other seeds and other problems. The 95 % interval and p are "
            "those of a fiducial (generalised) pivot of that mean: the three mean squares of the "
            "two-way analysis of variance, each known up to a chi-square, integrated by quadrature "
            "(Weerahandi 1993, Generalized confidence intervals, J. Am. Stat. Assoc. 88; Hannig, "
            "Iyer and Patterson 2006, Fiducial generalized confidence intervals, ibid. 101). With "
            "one problem, and of figures of a whole run (recall of forks, entropy, dH2), it is "
            "Student's t over seeds. Both take luck to be about normal."
        )
    else:
        told = (
            "With one seed the 95 % interval and p are Student's t over problems: they say nothing "
            "of other seeds, and nothing is decided by them."
        )
    swaps = (
        "p by swaps is the exact sign-flip permutation test: the two runs of each seed swap labels"
        if max(one["seeds"] for one in every) > 1
        else "p by swaps flips the sign of each problem's difference"
    )
    floors = {
        one["p_swap_least"]
        for mine in mapping(result["differences"]).values()
        for one in mine.values()
    }
    floor = f"; its floor here is {p_value(min(floors))}" if floors else ""
    rest = (
        "Where p belongs to a family of tests it is corrected by Holm's step-down procedure (Holm "
        "1979, A simple sequentially rejective multiple test procedure, Scand. J. Stat. 6). "
        f"{swaps}, in every arrangement or, where they are more, {RESAMPLES:,} drawn ones: it "
        "assumes nothing of how luck is distributed but cannot give a p below 2 in the number of "
        "arrangements"
        f"{floor}. Shares of which every one is 0 or 1 have Clopper and Pearson's "
        "interval (1934, Biometrika 26); differences that are all equal show no luck, so they have "
        "neither interval nor p. Intervals of forks at an equal share are bootstraps of whole "
        "problems."
    )
    return Section("inference", title, [Text(f"{told} {rest}", "note")])
