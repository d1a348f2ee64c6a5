"""The coordinator's partition assignors, `uniform` and `range`.

Rules: the assignment is a function of members, topics and the previous target, and of nothing else;
a partition that is read has exactly one owner, who reads it. `uniform` gives members with equal
subscriptions numbers of partitions that differ by at most one, and moves as few as that allows.
`range` gives each member a contiguous range in each topic, so that topics with equal partition
counts and readers are co-partitioned.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from uuid import UUID

from josefine_broker.engine.groups.consumer.values import NO_PARTS, ConsumerMember, Part, Parts

Counts = Mapping[UUID, int]
"""The partition count of each topic that is read."""
Reads = Mapping[str, frozenset[UUID]]
"""Member id → the existing topics that it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The input of an assignor. `members` are in the order in which ties are broken."""

    members: Sequence[str]
    reads: Reads
    counts: Counts
    before: Mapping[str, Parts]
    """The previous target assignment."""


def in_order(members: Mapping[str, ConsumerMember]) -> list[str]:
    """Static members first, by instance id: their next process keeps the position."""

    def place(member_id: str) -> tuple[bool, str]:
        """Sorting key: (is dynamic, instance or member id)."""
        instance_id = members[member_id].instance_id
        # A member id changes with each process, an instance id stays.
        return instance_id is None, instance_id or member_id

    return sorted(members, key=place)


def assign_range(wish: Wish) -> dict[str, Parts]:
    """The range assignment: the first members get one more if the division leaves a remainder."""
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    for topic_id, count in wish.counts.items():
        # Each topic by itself: equal indexes of topics with equal readers go to one member, which
        # can join them.
        readers = [each for each in wish.members if topic_id in wish.reads[each]]
        if not readers:
            continue
        size, more = divmod(count, len(readers))
        first = 0
        for at, member_id in enumerate(readers):
            last = first + size + (at < more)
            given[member_id].update(Part(topic_id, index) for index in range(first, last))
            first = last
    return _frozen(given)


def assign_uniform(wish: Wish) -> dict[str, Parts]:
    """The uniform assignment: even numbers, with as few moves as possible.

    The two cases differ in cost: with equal subscriptions any partition fits any member, so quotas
    suffice.
    """
    every = [
        Part(topic_id, at)
        for topic_id in sorted(wish.counts)
        for at in range(wish.counts[topic_id])
    ]
    if len(set(wish.reads.values())) <= 1:
        return _among_equals(wish, every)
    return _among_different(wish, every)


def _among_equals(wish: Wish, every: list[Part]) -> dict[str, Parts]:
    """With equal subscriptions: each member keeps its quota, and the first ones with more keep one
    more."""
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    if not given or not any(wish.reads.values()):
        return _frozen(given)
    quota, more = divmod(len(every), len(given))
    left = set(every)
    for member_id in wish.members:
        had = sorted(wish.before.get(member_id, NO_PARTS) & left)
        # Those that had more keep the extra one: it would move for nothing otherwise.
        keeps = quota + (len(had) > quota and more > 0)
        more -= keeps > quota
        given[member_id].update(had[:keeps])
        left.difference_update(had[:keeps])
    # In the order of topics and indexes, so that every coordinator assigns alike.
    free = iter([each for each in every if each in left])
    for member_id in wish.members:
        while len(given[member_id]) < quota:
            given[member_id].add(next(free))
    for member_id in wish.members:
        if more and len(given[member_id]) == quota:
            given[member_id].add(next(free))
            more -= 1
    return _frozen(given)


def _among_different(wish: Wish, every: list[Part]) -> dict[str, Parts]:
    """With different subscriptions: members keep what they had; the rest goes to the reader with
    the fewest; then partitions move from a member to a reader with at least two fewer, until there
    is no such pair."""
    readers: dict[UUID, list[str]] = {
        topic_id: [each for each in wish.members if topic_id in wish.reads[each]]
        for topic_id in wish.counts
    }
    owner: dict[Part, str] = {}
    load: dict[str, int] = defaultdict(int)
    alive = set(every)
    for member_id in wish.members:
        for part in sorted(wish.before.get(member_id, NO_PARTS) & alive):
            if part not in owner and part.topic_id in wish.reads[member_id]:
                owner[part] = member_id
                load[member_id] += 1

    def give_rest(topic_id: UUID) -> None:
        """Give the unowned partitions of a topic to its readers, each to the one with the
        fewest."""
        rest = [each for each in every if each.topic_id == topic_id and each not in owner]
        # A heap by load; the place in the order breaks ties, so that every coordinator assigns
        # alike.
        line = [(load[each], at, each) for at, each in enumerate(readers[topic_id])]
        heapify(line)
        for part in rest:
            count, at, member_id = line[0]
            owner[part] = member_id
            load[member_id] = count + 1
            heapreplace(line, (count + 1, at, member_id))

    # Topics with few readers first: their partitions have the least choice.
    for topic_id in sorted(wish.counts, key=lambda each: (len(readers[each]), each)):
        if readers[topic_id]:
            give_rest(topic_id)
    _level(owner, load, readers)
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    for part, member_id in owner.items():
        given[member_id].add(part)
    return _frozen(given)


def _level(owner: dict[Part, str], load: dict[str, int], readers: Mapping[UUID, list[str]]) -> None:
    """Even out the numbers. Each move reduces the sum of squares, so it terminates."""
    has_moved = True
    while has_moved:
        has_moved = False
        for part in sorted(owner):
            member_id = owner[part]
            # At least two fewer: to a reader with one fewer, a move would only swap the loads, for
            # ever.
            least = min(readers[part.topic_id], key=lambda each: load[each])
            if load[member_id] > load[least] + 1:
                owner[part] = least
                load[member_id] -= 1
                load[least] += 1
                has_moved = True


def _frozen(given: Mapping[str, set[Part]]) -> dict[str, Parts]:
    return {member_id: frozenset(parts) for member_id, parts in given.items()}


ASSIGNORS: Mapping[str, Callable[[Wish], dict[str, Parts]]] = {
    "uniform": assign_uniform,
    "range": assign_range,
}
"""By the name in the protocol; the first one is used if no member names one."""
DEFAULT = "uniform"


def preferred(members: Mapping[str, ConsumerMember]) -> str:
    """The assignor that most members ask for; on a tie the first of `ASSIGNORS`."""
    votes = dict.fromkeys(ASSIGNORS, 0)
    for each in members.values():
        if each.assignor is not None:
            votes[each.assignor] += 1
    best = max(votes, key=lambda name: votes[name])
    return best if votes[best] else DEFAULT
