"""Matching of topic names against a regular expression, in time linear in the name.

A client chooses the expression (SubscribedTopicRegex), so the matcher must not backtrack: it walks
sets of states of the automaton (`expressions.py`), and caches them. The whole name must match, as
in Kafka.
"""

from collections.abc import Iterable
from functools import lru_cache

from josefine_broker.engine.groups.consumer.expressions import Reader

SETS_MAX = 1_000
"""Cached transitions between sets of states per expression; above this the cache is cleared."""
REMEMBERED_MAX = 256
"""Number of cached compiled expressions."""


class Pattern:
    """A compiled expression. Mutable: it caches the sets of states that it has visited."""

    __slots__ = ("_begin", "_known", "_last", "_steps")

    def __init__(self, expression: str) -> None:
        """Raises KafkaError(invalid_regular_expression)."""
        reader = Reader(expression)
        first, self._last = reader.read()
        self._steps = reader.steps
        self._begin = self._reached([first], at_begin=True, at_end=False)
        self._known: dict[tuple[frozenset[int], str], frozenset[int]] = {}

    def matches(self, name: str) -> bool:
        """Whether the whole name matches."""
        states = self._begin
        if not name:
            return self._last in self._reached(states, at_begin=True, at_end=True)
        for char in name:
            states = self._after(states, char)
            if not states:
                return False
        return self._last in self._reached(states, at_begin=False, at_end=True)

    def _after(self, states: frozenset[int], char: str) -> frozenset[int]:
        key = states, char
        found = self._known.get(key)
        if found is None:
            onward: list[int] = []
            for state in states:
                step = self._steps[state]
                if step.chars is not None and step.chars.has(char):
                    onward += step.then
            found = self._reached(onward, at_begin=False, at_end=False)
            if len(self._known) >= SETS_MAX:
                self._known.clear()
            self._known[key] = found
        return found

    def _reached(self, begin: Iterable[int], *, at_begin: bool, at_end: bool) -> frozenset[int]:
        """These states, and those reachable from them without a character."""
        found: set[int] = set()
        open_states = list(begin)
        while open_states:
            state = open_states.pop()
            if state in found:
                continue
            found.add(state)
            step = self._steps[state]
            if step.chars is None and step.at_begin <= at_begin and step.at_end <= at_end:
                open_states += step.then
        return frozenset(found)


@lru_cache(maxsize=REMEMBERED_MAX)
def compiled(expression: str) -> Pattern:
    """The compiled expression. Raises KafkaError(invalid_regular_expression)."""
    return Pattern(expression)
