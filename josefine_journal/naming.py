"""The mapping of a persistence id to its topic and its journal id. Values only.

As in kafka-journal's plugin for Akka: all ids in one topic, or the topic is the part before the
id's last separator.
"""

from collections.abc import Callable
from dataclasses import dataclass

SEPARATOR = "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A journal's topic and its id there."""

    topic: str
    key: str


ToPlace = Callable[[str], Place]


def constant_topic(topic: str) -> ToPlace:
    """Every id unchanged, in that topic."""
    return lambda persistence_id: Place(topic=topic, key=persistence_id)


def split(otherwise: str, separator: str = SEPARATOR) -> ToPlace:
    """`orders-eu-7` is `7` of topic `orders-eu`; an id without two such parts is unchanged, in the
    topic `otherwise`."""

    def place(persistence_id: str) -> Place:
        topic, _, key = persistence_id.rpartition(separator)
        if not topic or not key:
            return Place(topic=otherwise, key=persistence_id)
        return Place(topic=topic, key=key)

    return place
