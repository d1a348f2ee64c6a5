"""The groups of one protocol that a broker coordinates, and when their members are looked at: what
groups of the consumer protocol and share groups have in common. Mutable.

Rules: the host asks how a request changes a group, writes the records, and returns the group once
they are in its log (`keep`). So a group is never ahead of the log, and a refused write has no
effect. Answers wait until the records are committed. Times are monotonic milliseconds.

Sessions are not stored: members sent their heartbeats to the coordinator before, and a new one
gives each of them a whole session to find it.
"""

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any, Generic, Protocol, TypeVar

from josefine_broker.engine.groups.consumer.subscriptions import Topics

Place = tuple[str, str]
"""Group id and member id."""
AGAIN_MS = 1_000
"""Delay before a failed write is repeated."""


class Coordinated(Protocol):
    """A group as a value: it is never changed, a request makes the next one."""

    @property
    def group_id(self) -> str: ...

    @property
    def members(self) -> Mapping[str, Any]: ...


G = TypeVar("G", bound=Coordinated)


class CoordinatedGroups(Generic[G]):
    """The groups by id, and the deadlines of their members."""

    __slots__ = (
        "_armed", "_due", "_ends", "_groups", "_seen", "_sessions", "session_timeout_ms",
        "session_timeouts", "size_max",
    )  # fmt: skip

    def __init__(self, session_timeout_ms: int, size_max: int) -> None:
        """`size_max`: how many members a group may have."""
        self.session_timeout_ms = session_timeout_ms
        self.session_timeouts: Mapping[str, int] = {}
        """Those of groups that have one of their own. It counts from the next heartbeat on."""
        self.size_max = size_max
        self._groups: dict[str, G] = {}
        self._ends: dict[str, int] = {}
        """The end offset of a group's last batch in its partition's log."""
        self._sessions: dict[Place, int] = {}
        """When the session of each member ends."""
        self._seen: dict[str, Topics] = {}
        """The topics at a group's last heartbeat. Compared by identity, which costs nothing."""
        self._due: list[tuple[int, Place]] = []
        """When a member may be due: one valid entry each (`_armed`), the others are stale."""
        self._armed: dict[Place, int] = {}
        """The time of a member's valid entry in `_due`."""

    @property
    def group_ids(self) -> list[str]:
        return sorted(self._groups)

    def get(self, group_id: str) -> G | None:
        return self._groups.get(group_id)

    def is_news(self, group_id: str, topics: Topics) -> bool:
        """Whether the topics may have changed since the group's last heartbeat. After a load none
        was seen, so the first heartbeat looks at them."""
        return self._seen.get(group_id) is not topics

    def timeout_ms_of(self, group_id: str) -> int:
        """The session timeout of the group's members."""
        return self.session_timeouts.get(group_id, self.session_timeout_ms)

    # The log.

    def wrote(self, group_id: str, end_offset: int) -> None:
        """A batch of the group is in the log up to here; it counts when that is committed."""
        self._ends[group_id] = end_offset

    def end_offset(self, group_id: str) -> int:
        """The offset up to which the log must be committed for the group's state; 0: loaded."""
        return self._ends.get(group_id, 0)

    def keep(self, group: G, now_ms: int) -> None:
        """Replace the group by this state, which is in the log."""
        raise NotImplementedError

    def drop(self, group_id: str) -> None:
        """Remove a group that is deleted in the log, or that another broker coordinates."""
        group = self._groups.pop(group_id, None)
        self._seen.pop(group_id, None)
        self._ends.pop(group_id, None)
        for member_id in () if group is None else group.members:
            self._forget((group_id, member_id))

    def load(self, groups: Mapping[str, G], now_ms: int) -> None:
        """Coordinate these groups from now on."""
        for group in groups.values():
            self.drop(group.group_id)
            self.keep(group, now_ms)

    def unload(self, is_gone: Callable[[str], bool]) -> None:
        """Stop coordinating these groups."""
        for group_id in [each for each in self._groups if is_gone(each)]:
            self.drop(group_id)

    def _replace(self, group: G) -> G | None:
        """Take the group in place of what it was, which is returned; forget lost members."""
        before = self._groups.get(group.group_id)
        self._groups[group.group_id] = group
        for member_id in () if before is None else before.members:
            if member_id not in group.members:
                self._forget((group.group_id, member_id))
        return before

    # Timers.

    def wake_at_ms(self) -> int | None:
        """When `late` is to be called next; None: no member has a deadline. Drops stale entries."""
        while self._due and self._armed.get(self._due[0][1]) != self._due[0][0]:
            heappop(self._due)
        return self._due[0][0] if self._due else None

    def late(self, now_ms: int) -> list[tuple[G, list[str]]]:
        """Each group with its members whose deadline has passed. Those that remain are reported
        again after a while."""
        found: dict[str, list[str]] = {}
        while (at_ms := self.wake_at_ms()) is not None and at_ms <= now_ms:
            _, place = heappop(self._due)
            del self._armed[place]
            deadline_ms = self._deadline_ms(place)
            if deadline_ms is None:
                continue
            if deadline_ms > now_ms:
                self._wake(place, deadline_ms)
                continue
            # The session ends with the write that removes the member, which may fail: until then
            # the member is reported again.
            self._wake(place, now_ms + AGAIN_MS)
            found.setdefault(place[0], []).append(place[1])
        return [(self._groups[group_id], lost) for group_id, lost in found.items()]

    def _deadline_ms(self, place: Place) -> int | None:
        """When the member is late; None: it has no deadline."""
        return self._sessions.get(place)

    def _arm(self, table: dict[Place, int], place: Place, at_ms: int) -> None:
        """Set a deadline. One that only moves later costs nothing: the member is then checked too
        early once in a while."""
        table[place] = at_ms
        self._wake(place, at_ms)

    def _wake(self, place: Place, at_ms: int) -> None:
        """Look at a member then, unless it is looked at earlier. An entry that is replaced stays in
        the heap until it is first, because removing it would cost a search."""
        armed_ms = self._armed.get(place)
        if armed_ms is None or at_ms < armed_ms:
            self._armed[place] = at_ms
            heappush(self._due, (at_ms, place))

    def _renewed(self, place: Place, at_ms: int) -> bool:
        """Move the end of a session if nothing has to be looked at earlier for that; returns
        whether it was moved."""
        armed_ms = self._armed.get(place)
        if armed_ms is None or at_ms < armed_ms:
            return False
        self._sessions[place] = at_ms
        return True

    def _forget(self, place: Place) -> None:
        """Forget a member's deadlines."""
        self._sessions.pop(place, None)
        self._armed.pop(place, None)
