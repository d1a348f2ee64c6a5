"""The topics that a group's members read, and a hash that changes with them.

A subscription to a topic that does not exist applies once it does. A regular expression that
matches internal topics reads them as well, as in Kafka: clients can exclude them in the expression.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from uuid import UUID

from josefine_broker.engine.groups.consumer.patterns import matches
from josefine_broker.engine.groups.consumer.values import ConsumerMember
from josefine_broker.engine.metadata.image import TopicEntry

Topics = Mapping[str, TopicEntry]


def names_read(members: Iterable[ConsumerMember], topics: Topics) -> frozenset[str]:
    """The existing topics that the members read."""
    named: set[str] = set()
    expressions: set[str] = set()
    for member in members:
        named |= member.topics
        if member.regex:
            expressions.add(member.regex)
    found = {name for name in named if name in topics}
    for expression in expressions:
        found.update(name for name in topics if name not in found and matches(expression, name))
    return frozenset(found)


def reads(members: Mapping[str, ConsumerMember], topics: Topics) -> dict[str, frozenset[UUID]]:
    """Member id → the topics that it reads; computed once for members with equal subscriptions."""
    known: dict[tuple[frozenset[str], str | None], frozenset[UUID]] = {}
    found = {}
    for member_id, member in members.items():
        key = member.topics, member.regex
        if key not in known:
            names = names_read((member,), topics)
            known[key] = frozenset(topics[name].topic_id for name in names)
        found[member_id] = known[key]
    return found


def metadata_hash(members: Mapping[str, ConsumerMember], topics: Topics) -> int:
    """A hash of the topics that are read, their ids and partition counts: 64 bits, signed; 0 for
    none. It is stored in the log, so the next coordinator knows what the target was made for."""
    kinds = {(each.topics, each.regex): each for each in members.values()}
    names = names_read(kinds.values(), topics)
    if not names:
        return 0
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        entry = topics[name]
        digest.update(f"{name}\n{entry.topic_id.hex}\n{len(entry.partitions)}\n".encode())
    return int.from_bytes(digest.digest(), signed=True)
