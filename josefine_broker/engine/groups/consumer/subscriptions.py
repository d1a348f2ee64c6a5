"""Which topics the members of a group read, and a number that says whether those changed.

Names of topics that do not exist count from when they do. An expression that the broker's own
topics match reads them, too, as in Kafka: a client that must not see them says so in it.
"""

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from uuid import UUID

from josefine_broker.engine.groups.consumer.patterns import matches
from josefine_broker.engine.groups.consumer.values import ConsumerMember
from josefine_broker.engine.metadata.image import TopicEntry

Topics = Mapping[str, TopicEntry]


def names_read(members: Iterable[ConsumerMember], topics: Topics) -> frozenset[str]:
    """Of the topics that exist."""
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
    """By member id, the topics that it reads; found once for members that read the same."""
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
    """Of the topics that are read, their ids and their numbers of partitions: 64 bits, signed. 0
    for none. It is in the log: the next coordinator knows what the target was made for."""
    kinds = {(each.topics, each.regex): each for each in members.values()}
    names = names_read(kinds.values(), topics)
    if not names:
        return 0
    digest = blake2b(digest_size=8)
    for name in sorted(names):
        entry = topics[name]
        digest.update(f"{name}\n{entry.topic_id.hex}\n{len(entry.partitions)}\n".encode())
    return int.from_bytes(digest.digest(), signed=True)
