"""The assignor of share groups, which Kafka names "simple": partitions may have several members.

Rules: every partition has a member that subscribes to its topic, and every member with such a topic
has a partition. Partitions with a member keep it as long as that leaves both balanced.

The first rule leaves no partition unread. The second lets a group use more members than it has
partitions, which a consumer group cannot. Members keep what they had because a member whose
partitions change has to change its share sessions, and may have to fetch from other brokers.
"""

from collections.abc import Mapping
from uuid import UUID

from josefine_broker.engine.groups.consumer.values import Part, Parts

ASSIGNOR = "simple"


def assign(
    reads: Mapping[str, frozenset[UUID]], counts: Mapping[UUID, int], before: Mapping[str, Parts]
) -> dict[str, Parts]:
    """The partitions of each member. `reads`: member id → the topics that it reads.

    `counts`: topic → how many partitions it has; `before`: the assignment of the last epoch. The
    result has every member of `reads`, also one without any partition. Equal arguments give equal
    results: what is compared is ordered by ids, never by the order of a set.
    """
    parts = sorted(
        Part(topic_id, index) for topic_id, count in counts.items() for index in range(count)
    )
    found: dict[str, set[Part]] = {member_id: set() for member_id in sorted(reads)}
    readers: dict[UUID, list[str]] = {
        topic_id: [each for each in found if topic_id in reads[each]] for topic_id in counts
    }
    # How many members each partition has so far.
    taken = dict.fromkeys(parts, 0)

    def give(member_id: str, part: Part) -> None:
        found[member_id].add(part)
        taken[part] += 1

    # First what each had, up to its share; then each partition that nobody has, to the member with
    # the least; then each member without any, to the partition with the fewest members.
    # Both are rounded up: with 3 partitions and 2 members, one of them keeps 2. `share` is the
    # partitions of a member, `crowd` the members of a partition.
    share = -(-len(parts) // max(1, len(found)))
    crowd = -(-len(found) // max(1, len(parts)))
    for member_id, mine in found.items():
        for part in sorted(before.get(member_id, ())):
            is_wanted = part in taken and part.topic_id in reads[member_id]
            if is_wanted and len(mine) < share and taken[part] < crowd:
                give(member_id, part)
    for part in parts:
        if not taken[part] and readers[part.topic_id]:
            give(min(readers[part.topic_id], key=lambda each: (len(found[each]), each)), part)
    for member_id, mine in found.items():
        choice = [each for each in parts if each.topic_id in reads[member_id]]
        if not mine and choice:
            give(member_id, min(choice, key=lambda each: (taken[each], each)))
    return {member_id: frozenset(mine) for member_id, mine in found.items()}
