"""Events that concern followers: how many there were, and of which partitions, for each follower.

Rules: an event is noted for every follower that has asked for its notes; the one that looks removes
what it has seen. So a look at the noted partitions finds what a look at all of them would find.
"""

from josefine_broker.records.crc import Buffer

PartitionKey = tuple[str, int]


class FollowerNews:
    """One per broker."""

    __slots__ = ("_changes", "events", "grown")

    def __init__(self) -> None:
        self.events = 0
        """How many events followers had, whether their fetch was waiting or not: a fetch that is
        being read must not miss one."""
        self.grown: dict[PartitionKey, tuple[int, Buffer]] = {}
        """What was appended since the followers were woken last, where that is at hand: the offset
        of its first record, and its batches. Emptied as soon as they are woken."""
        self._changes: dict[int, dict[PartitionKey, None]] = {}

    def note(self, partition: PartitionKey) -> None:
        """A follower that looks for news must look at this partition."""
        for changes in self._changes.values():
            changes[partition] = None

    @property
    def is_noting(self) -> bool:
        """Whether a follower has asked for its notes."""
        return bool(self._changes)

    @property
    def noted(self) -> frozenset[int]:
        """The followers that notes are kept for."""
        return frozenset(self._changes)

    def of(self, broker_id: int) -> dict[PartitionKey, None]:
        """The partitions with an event since this follower's last look; noted from the first call
        on."""
        return self._changes.setdefault(broker_id, {})
