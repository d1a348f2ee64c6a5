"""Names of topics and groups that do not exist: the nearest one that does, and what creates it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.io_blocking import BlockingClient
from josefine_cli.base.errors import UserError

CUTOFF = 0.7
"""Similarity from which a name may be the one that was meant; 1 is the same name."""
INTERNAL = "__"


def partition_count(client: BlockingClient, topic: str) -> int:
    """Partitions of a topic. Raises UserError for an unknown one, KafkaError."""
    try:
        return client.partition_count(topic)
    except KafkaError as error:
        if error.code is not ErrorCode.unknown_topic_or_partition:
            raise
        raise UserError(unknown_topic(topic, client.metadata().topics)) from error


def unknown_topic(topic: str, known: Iterable[str]) -> str:
    """The sentence about a topic that does not exist."""
    near = nearest(topic, (each for each in known if not each.startswith(INTERNAL)))
    meant = f"did you mean '{near}'? If not: " if near else ""
    return f"topic '{topic}' does not exist: {meant}josefine topics create {topic}"


def unknown_group(group: str, known: Iterable[str]) -> str:
    """The sentence about a group that does not exist."""
    near = nearest(group, known)
    return f"group '{group}' does not exist" + (f": did you mean '{near}'?" if near else "")


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one; "" if none is."""
    near = difflib.get_close_matches(name, [*known], n=1, cutoff=CUTOFF)
    return near[0] if near else ""
