"""The choice of a group's protocol (assignment strategy): one that all members support, by vote.

Cooperative rebalancing (KIP-429) needs nothing here: its assignors are protocols like any other,
and a member that gave up partitions simply joins again.
"""

import struct
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from struct import Struct

from josefine_broker.base.errors import Fatal
from josefine_broker.engine.groups.values import Member, Protocol

_VERSION_AND_COUNT = Struct(">hi")
_SHORT = Struct(">h")


def has_common(members: Collection[Member], offered: Sequence[Protocol]) -> bool:
    """Whether every member supports one of the offered protocols."""
    common = _common(members)
    if common is None:
        return bool(offered)
    return any(each.name in common for each in offered)


def _common(members: Iterable[Member]) -> set[str] | None:
    """The names that all members support; None without members."""
    common: set[str] | None = None
    for member in members:
        names = {each.name for each in member.protocols}
        common = names if common is None else common & names
    return common


def select(members: Collection[Member]) -> str:
    """The elected protocol. Each member votes for the first one on its list that all support; on a
    tie the one voted for first wins."""
    common = _common(members)
    if not common:
        raise Fatal("members without a common protocol")
    votes: Counter[str] = Counter()
    for member in members:
        votes[next(each.name for each in member.protocols if each.name in common)] += 1
    return votes.most_common(1)[0][0]


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a consumer's subscription; every version starts like version 0. None for bytes
    that are not a subscription.

    >>> sorted(subscribed_topics(bytes.fromhex("0001 00000002 0001 61 0001 62 ffff")))
    ['a', 'b']
    """
    try:
        _, count = _VERSION_AND_COUNT.unpack_from(metadata)
        pos = _VERSION_AND_COUNT.size
        if not 0 <= count <= len(metadata) - pos:
            return None
        topics = []
        for _ in range(count):
            end = pos + 2 + _SHORT.unpack_from(metadata, pos)[0]
            if not pos + 2 <= end <= len(metadata):
                return None
            topics.append(metadata[pos + 2 : end].decode())
            pos = end
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
