"""The texts of a mirror's topic configs: its source, and where its partitions ended. Pure."""

from collections.abc import Iterable
from uuid import UUID

from josefine_broker.engine.metadata.config_texts import Value

MIRROR_SOURCE = "josefine.mirror.source"
_RESERVED_IDS = 100
"""Kafka keeps the first ones for itself."""


def mirrored_id(source: str) -> UUID | None:
    """The topic id in the text `cluster/topic id`; None: the source's topics have no ids."""
    _, slash, text = source.rpartition("/")
    try:
        found = UUID(text) if slash else None
    except ValueError:
        return None
    return None if found is None or found.int < _RESERVED_IDS else found


def check_ends(value: Value) -> None:
    """Raises ValueError unless each item is a partition and an offset."""
    assert isinstance(value, tuple)
    for item in value:
        index, colon, end = item.partition(":")
        if not (colon and index.isascii() and index.isdigit() and end.isascii() and end.isdigit()):
            raise ValueError(f"'{item}' is not partition:offset")


def mirror_end(ends: Iterable[str], partition: int) -> int:
    """The offset at which this partition's mirror ended; 0: it was not mirrored."""
    for item in ends:
        index, _, end = item.partition(":")
        if int(index) == partition:
            return int(end)
    return 0
