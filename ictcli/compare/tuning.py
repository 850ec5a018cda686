"""Choosing a setting for every variant alike, before the runs that count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ictcli.compare.plan import Member, Variant
from ictcli.compare.runs import Summaries
from ictcli.errors import RunFailedError

METRIC = "pass@1"


def reached(
    tries: Sequence[tuple[Member, str]], summaries: Summaries
) -> dict[str, dict[str, dict[str, float]]]:
    """By variant and override: pass@k on the tuning problems; failed runs are left out."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for member, override in tries:
        of_it = found.setdefault(member.variant.label, {})
        if summary := summaries.get(member.folder):
            of_it[override] = {k: one["value"] for k, one in summary["after"].items()}
    return found


def best(
    tuned: Mapping[str, Mapping[str, Mapping[str, Any]]], variants: Sequence[Variant]
) -> dict[str, str]:
    """By variant the override of highest pass@1 (the first k, where 1 is not among them), the
    earlier of equals. RunFailedError where none of a variant's runs finished."""
    found: dict[str, str] = {}
    for variant in variants:
        values = tuned.get(variant.label) or {}
        if not values:
            raise RunFailedError(
                f"Every tuning run of {variant.label} failed.", "leave it out of --methods"
            )
        first = next(iter(values.values()))
        metric = METRIC if METRIC in first else next(iter(first))
        reach = [values[override][metric] for override in values]
        found[variant.label] = list(values)[reach.index(max(reach))]
    return found
