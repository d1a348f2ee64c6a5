"""Who is to have which partitions: the assignors of the coordinator, `uniform` and `range`.

Rules: what is given is a function of members, topics and the target before, and of nothing else; a
partition that somebody reads has exactly one member, who reads it. `uniform` gives members that
read the same topics numbers that differ by one at most, and leaves with each what it had as far as
that allows. `range` gives each member a run of neighbours in each topic, so that equal partitions
of topics with equal counts and readers meet at one member.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from uuid import UUID

from josefine_broker.engine.groups.consumer.values import NO_PARTS, ConsumerMember, Part, Parts

Counts = Mapping[UUID, int]
"""Partitions of each topic that is read."""
Reads = Mapping[str, frozenset[UUID]]
"""By member id: the topics that it reads, of those that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What is to be assigned. `members` in the order in which equals are served."""

    members: Sequence[str]
    reads: Reads
    counts: Counts
    before: Mapping[str, Parts]
    """The target before this one."""


def in_order(members: Mapping[str, ConsumerMember]) -> list[str]:
    """Static members first, by their instance: a new process of one changes nobody's place."""

    def place(member_id: str) -> tuple[bool, str]:
        instance_id = members[member_id].instance_id
        return instance_id is None, instance_id or member_id

    return sorted(members, key=place)


def assign_range(wish: Wish) -> dict[str, Parts]:
    """The first members get one more where it does not divide."""
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    for topic_id, count in wish.counts.items():
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
    """Even numbers, and as much as possible stays where it was."""
    every = [
        Part(topic_id, at)
        for topic_id in sorted(wish.counts)
        for at in range(wish.counts[topic_id])
    ]
    if len(set(wish.reads.values())) <= 1:
        return _among_equals(wish, every)
    return _among_different(wish, every)


def _among_equals(wish: Wish, every: list[Part]) -> dict[str, Parts]:
    """All read the same: each has its quota, and the first to have had more keep one more."""
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    if not given or not any(wish.reads.values()):
        return _frozen(given)
    quota, more = divmod(len(every), len(given))
    left = set(every)
    for member_id in wish.members:
        had = sorted(wish.before.get(member_id, NO_PARTS) & left)
        keeps = quota + (len(had) > quota and more > 0)
        more -= keeps > quota
        given[member_id].update(had[:keeps])
        left.difference_update(had[:keeps])
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
    """What each had stays; the rest goes to whoever has least; then partitions move from who has
    more to a reader that has two less, until there is none."""
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
        rest = [each for each in every if each.topic_id == topic_id and each not in owner]
        line = [(load[each], at, each) for at, each in enumerate(readers[topic_id])]
        heapify(line)
        for part in rest:
            count, at, member_id = line[0]
            owner[part] = member_id
            load[member_id] = count + 1
            heapreplace(line, (count + 1, at, member_id))

    for topic_id in sorted(wish.counts, key=lambda each: (len(readers[each]), each)):
        if readers[topic_id]:
            give_rest(topic_id)
    _level(owner, load, readers)
    given: dict[str, set[Part]] = {member_id: set() for member_id in wish.members}
    for part, member_id in owner.items():
        given[member_id].add(part)
    return _frozen(given)


def _level(owner: dict[Part, str], load: dict[str, int], readers: Mapping[UUID, list[str]]) -> None:
    """Each move makes the sum of squares smaller, so it ends."""
    has_moved = True
    while has_moved:
        has_moved = False
        for part in sorted(owner):
            member_id = owner[part]
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
"""By the names that members choose them by; the first where nobody chooses."""
DEFAULT = "uniform"


def preferred(members: Mapping[str, ConsumerMember]) -> str:
    """The one that most members ask for; of equals the first of `ASSIGNORS`."""
    votes = dict.fromkeys(ASSIGNORS, 0)
    for each in members.values():
        if each.assignor is not None:
            votes[each.assignor] += 1
    best = max(votes, key=lambda name: votes[name])
    return best if votes[best] else DEFAULT
