"""Median, spread and ratio of alternating rounds. Pure.

A ratio above 1 is better for the first side, whatever the unit: of rates it is ours ÷ theirs, of
times, memory and CPU theirs ÷ ours. The rounds are paired before they are summed up, because a
noisy machine moves both sides of one round together.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

QUARTILES_FROM = 5
"""Rounds from which on the spread is the interquartile range; of fewer it is lowest to highest."""
RATE_ENDS = ("/s", "/CPU s")
"""How units end of which more is better; of every other unit less is better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median of the rounds, and between which values half of them (or all) are."""

    low: float
    middle: float
    high: float
    rounds: int


def spread_of(values: Sequence[float]) -> Spread:
    """Raises ValueError without a value."""
    if not values:
        raise ValueError("a spread needs one round at least")
    low, high = min(values), max(values)
    if len(values) >= QUARTILES_FROM:
        low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(low=low, middle=median(values), high=high, rounds=len(values))


def is_rate(unit: str) -> bool:
    """Whether more is better."""
    return unit.endswith(RATE_ENDS)


def ratios(ours: Sequence[float], theirs: Sequence[float], unit: str) -> list[float]:
    """One per round that both sides have. A round in which a side measured nothing at all (an idle
    process that used no tick of CPU) has no ratio."""
    found = []
    for one, other in zip(ours, theirs, strict=False):
        better, worse = (one, other) if is_rate(unit) else (other, one)
        if worse > 0 and better > 0 and math.isfinite(better / worse):
            found.append(better / worse)
    return found


def is_worse(found: Sequence[float], threshold: float) -> bool:
    """Whether the rounds show a regression: their median is below the threshold, and the upper end
    of their spread is below 1, so that no single slow round decides."""
    if not found:
        return False
    spread = spread_of(found)
    return spread.middle < threshold and spread.high < 1
