"""Recorded limits of the marks, a ratchet: a file of numbers that only get better.

`limits.json` has the largest value of each mark that is held (`at_most`), the smallest of those
that should grow (`at_least`), and every mutable class with too many attributes and how many it has
(`classes`). A mark that is in neither is only shown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.shape.marks import Mark

FILE = Path(__file__).with_name("limits.json")
NAME = "tests/shape/limits.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What `limits.json` has."""

    at_most: Mapping[str, float]
    at_least: Mapping[str, float]
    classes: Mapping[str, int]
    """`path::Class` → attributes."""


def read() -> Limits:
    """The recorded limits."""
    plain = json.loads(FILE.read_text())
    return Limits(at_most=plain["at_most"], at_least=plain["at_least"], classes=plain["classes"])


def write(limits: Limits) -> None:
    """Record new limits."""
    plain = {
        "at_most": dict(limits.at_most),
        "at_least": dict(limits.at_least),
        "classes": dict(sorted(limits.classes.items())),
    }
    FILE.write_text(json.dumps(plain, indent=2) + "\n")


def broken(marks: Sequence[Mark], large: Mapping[str, int], limits: Limits) -> list[str]:
    """What is beyond its limit, and what the file names that is no longer there."""
    values = {mark.name: mark.value for mark in marks}
    found = [
        f"{name}: {values[name]:g}, at most {limit:g}: `./build.sh lint --shape --list` shows where"
        for name, limit in limits.at_most.items()
        if name in values and values[name] > limit
    ]
    found += [
        f"{name}: {values[name]:g}, at least {limit:g}"
        for name, limit in limits.at_least.items()
        if name in values and values[name] < limit
    ]
    found += [
        f"{NAME}: there is no mark '{name}': take the line out"
        for name in (*limits.at_most, *limits.at_least)
        if name not in values
    ]
    return found + broken_classes(large, limits.classes)


def broken_classes(large: Mapping[str, int], allowed: Mapping[str, int]) -> list[str]:
    """Classes that are too large and not allowed so many attributes, and stale lines."""
    found = [
        f"{place}: {count} attributes that can change, at most {allowed.get(place, 'a dozen')}: "
        "take a part of the class out"
        for place, count in sorted(large.items())
        if count > allowed.get(place, 0)
    ]
    for place in sorted(allowed.keys() - large.keys()):
        name = place.partition("::")[2]
        new = sorted(
            other for other in large.keys() - allowed.keys() if other.endswith(f"::{name}")
        )
        where = f"it is now '{new[0]}'" if new else "it has a dozen attributes at most, or is gone"
        found.append(f"{NAME}: '{place}': {where}: run `./build.sh lint --shape --tighten`")
    return found


def tightened(marks: Sequence[Mark], large: Mapping[str, int], limits: Limits) -> Limits:
    """The limits with each better value in the place of the recorded one; none gets worse.

    A value is rounded to the worse side by the steps of its mark. A class that moved to another
    file keeps its line, under the new path.
    """
    by_name = {mark.name: mark for mark in marks}
    spare = {place: count for place, count in limits.classes.items() if place not in large}
    classes: dict[str, int] = {}
    for place, count in large.items():
        allowed = limits.classes.get(place)
        if allowed is None:
            allowed = _moved(place, spare)
        if allowed is not None:
            classes[place] = min(count, allowed)
    return Limits(
        at_most={
            name: min(limit, -(-by_name[name].value // by_name[name].step) * by_name[name].step)
            for name, limit in limits.at_most.items()
            if name in by_name
        },
        at_least={
            name: max(limit, by_name[name].value // by_name[name].step * by_name[name].step)
            for name, limit in limits.at_least.items()
            if name in by_name
        },
        classes=classes,
    )


def _moved(place: str, spare: dict[str, int]) -> int | None:
    """What is allowed for the class of this name whose file is gone; each line serves once."""
    name = place.partition("::")[2]
    for old in sorted(spare):
        if old.endswith(f"::{name}"):
            return spare.pop(old)
    return None
