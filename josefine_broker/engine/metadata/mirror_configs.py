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
    """Raises ValueError unless each item is a partition and an offset, or an epoch."""
    assert isinstance(value, tuple)
    for item in value:
        index, colon, end = item.partition(":")
        if not (colon and index.isascii() and index.isdigit() and end.isascii() and end.isdigit()):
            raise ValueError(f"'{item}' is not a partition and a number, as in 0:17")


def number_of(items: Iterable[str], partition: int, default: int) -> int:
    """The offset or epoch that this partition has among the items."""
    for item in items:
        index, _, number = item.partition(":")
        if int(index) == partition:
            return int(number)
    return default
