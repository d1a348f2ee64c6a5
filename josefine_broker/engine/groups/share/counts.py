"""What share groups have done on this broker, since it started. Mutable; metrics read it.

Rules: clients name the groups, so the number of counted groups is bounded: above it the one that
was counted first is forgotten, and counts from zero when it is used again.
"""

from dataclasses import dataclass, field

from josefine_broker.engine.groups.share.values import AckType

GROUPS_MAX = 10_000


@dataclass(slots=True)
class GroupCounts:
    """One group's."""

    acquired: int = 0
    """Records that members got; each delivery counts."""
    lock_timeouts: int = 0
    """Records whose lock ended before their member answered."""
    dead_letters: int = 0
    """Records whose dead letters were written."""
    dead_letters_lost: int = 0
    """Records that were archived though no dead letter of them could be written."""
    acknowledged: dict[AckType, int] = field(default_factory=dict)
    """Records that members answered for, by answer."""


class ShareCounts:
    """The counts by group."""

    __slots__ = ("_groups",)

    def __init__(self) -> None:
        self._groups: dict[str, GroupCounts] = {}

    def of(self, group_id: str) -> GroupCounts:
        """The counts of a group, to be changed."""
        found = self._groups.get(group_id)
        if found is None:
            if len(self._groups) >= GROUPS_MAX:
                del self._groups[next(iter(self._groups))]
            found = self._groups[group_id] = GroupCounts()
        return found

    def all(self) -> list[tuple[str, GroupCounts]]:
        """By group id, sorted."""
        return sorted(self._groups.items(), key=lambda each: each[0])
