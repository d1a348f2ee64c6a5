"""The text of `josefine.mirror.ends`: where the mirror of each partition ended. Pure."""

from collections.abc import Iterable

from josefine_broker.engine.metadata.config_texts import Value


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
