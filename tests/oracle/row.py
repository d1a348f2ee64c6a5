"""A row of the known differences, and the requests and answers that it applies to."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.oracle.compare import IDENTITY, Difference
from tests.oracle.shapes import Tree


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One row. `*` in path and values matches any text, ` | ` is between alternatives; `apis` is
    `Name` or `Name, Name`, `*` all of them."""

    apis: str
    path: str
    ours: str = "*"
    theirs: str = "*"
    why: str
    is_rare: bool = False
    """It depends on timing, or only episodes beyond a whole run have met it."""
    ends: bool = False
    """What follows in the episode may differ because of it: the episode ends here."""

    is_named_twice: bool = False
    """Only of requests that name something twice."""

    def explains(self, api: str, request: Tree, difference: Difference) -> bool:
        """Whether this row speaks of it."""
        if self.is_named_twice and not names_twice(request):
            return False
        return (
            (self.apis == "*" or api in self.apis.split(", "))
            and _fits(self.path, difference.path)
            and _fits(self.ours, difference.ours)
            and _fits(self.theirs, difference.theirs)
        )


def _fits(pattern: str, text: str) -> bool:
    return any(_regex(each).fullmatch(text) for each in pattern.split(" | "))


@cache
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(re.escape(pattern).replace(r"\*", ".*"), re.DOTALL)


def names_twice(tree: Any) -> bool:
    """Whether a list of the request has two items for one thing: a topic, a partition."""
    if isinstance(tree, dict):
        return any(names_twice(each) for each in tree.values())
    if not isinstance(tree, list):
        return False
    named = [_identity(item) for item in tree]
    return len(set(named)) < len(named) or any(names_twice(each) for each in tree)


def _identity(item: Any) -> str:
    names = [name for name in (*IDENTITY, "topic_id") if isinstance(item, dict) and name in item]
    return repr([item[name] for name in names] if names else item)
