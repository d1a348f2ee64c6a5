"""Groups of the text protocol: a group type of its own, next to Kafka's.

A subscription of that protocol is the committed offset of its partition, with its id in the
metadata. A group has type `text` while one of its offsets is marked this way.
"""

MARK = "josefine-text:"
"""Prefix of the metadata of a subscription's committed offset."""


def holder_in(metadata: str) -> str:
    """The id of the subscription that a committed offset belongs to; empty if none."""
    return metadata.removeprefix(MARK) if metadata.startswith(MARK) else ""


def marked(id_: str) -> str:
    """The metadata of an offset whose partition `id_` holds; empty if nobody holds it."""
    return f"{MARK}{id_}" if id_ else ""
