"""Groups of the text protocol: a type of their own beside those of Kafka's clients.

A subscription of that protocol is the committed offset of its partition, marked with its id in the
metadata. A group is of type `text` while one of its offsets is marked so.
"""

MARK = "josefine-text:"
"""Begins the metadata of a committed offset that is a subscription's."""


def holder_in(metadata: str) -> str:
    """The id of the subscription that a committed offset is; empty: it is none."""
    return metadata.removeprefix(MARK) if metadata.startswith(MARK) else ""


def marked(id_: str) -> str:
    """The metadata of the offset of a partition that `id_` holds; empty: nobody does."""
    return f"{MARK}{id_}" if id_ else ""
