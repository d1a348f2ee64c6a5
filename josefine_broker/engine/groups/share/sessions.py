"""The share sessions of a broker: which partitions each member fetches here (KIP-932). Mutable.

Rules: a session is of one group's member. Epoch 0 opens one, in the place of an older one; -1
closes it; others count its requests. A broker has so many at most; sessions that are idle for
longer than a member may be silent make room.

A session saves the list of partitions in each request, as a fetch session does (KIP-227). Its epoch
also finds a request that was lost or came twice: without it the acknowledgements in such a request
would be lost unnoticed, or taken for those of a later delivery. Times are monotonic milliseconds.
Sessions are in memory alone: after a restart of the broker a member opens another one.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError

OPENING_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1
"""Epochs are int32 in the wire format. After this one comes 1, because 0 would open a session."""
SESSIONS_MAX = 2_000
"""Kafka's `group.share.max.share.sessions`."""

Part = tuple[UUID, int]
"""Topic id and partition."""


@dataclass(slots=True)
class ShareSession:
    """The session of one member."""

    group_id: str
    member_id: str
    used_ms: int
    """When its last request came."""
    epoch: int = 1
    """That of its next request."""
    parts: dict[Part, None] = field(default_factory=dict)
    """What it fetches, in the order in which it is read."""
    led: tuple[Any, ...] = ()
    """The share partitions that these are here, for requests that name none. Empty: look them
    up."""

    def count(self, now_ms: int) -> None:
        """A request of this epoch came."""
        self.epoch = 1 if self.epoch == EPOCH_MAX else self.epoch + 1
        self.used_ms = now_ms

    def changed(self, added: Collection[Part], removed: Collection[Part]) -> None:
        """Fetch these partitions, too, or no more. One that is both stays, as the last in order."""
        if added or removed:
            self.led = ()
        for part in removed:
            self.parts.pop(part, None)
        for part in added:
            self.parts.setdefault(part, None)

    def rotated(self, part: Part) -> None:
        """Records of the partition were sent: the others come before it next time. Otherwise one
        with many records would take the room of each answer, and the others would starve."""
        if part in self.parts:
            del self.parts[part]
            self.parts[part] = None


class ShareSessions:
    """The sessions by group and member."""

    __slots__ = ("_idle_ms", "_sessions")

    def __init__(self, idle_ms: int) -> None:
        """`idle_ms`: how long a member may be silent."""
        self._idle_ms = idle_ms
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, group_id: str, member_id: str, now_ms: int) -> ShareSession:
        """A new session. Raises KafkaError(share_session_limit_reached)."""
        self._sessions.pop((group_id, member_id), None)
        # Members that died closed nothing. Only an opening looks for them: others cost nothing.
        for key, each in list(self._sessions.items()):
            if now_ms - each.used_ms > self._idle_ms:
                del self._sessions[key]
        if len(self._sessions) >= SESSIONS_MAX:
            message = f"this broker has {SESSIONS_MAX} share sessions"
            raise KafkaError(ErrorCode.share_session_limit_reached, message)
        session = self._sessions[group_id, member_id] = ShareSession(group_id, member_id, now_ms)
        return session

    def next(self, group_id: str, member_id: str, epoch: int, now_ms: int) -> ShareSession:
        """The session of another request. Raises KafkaError(share_session_not_found |
        invalid_share_session_epoch)."""
        # After both errors the client opens another session, and acquires again.
        session = self._sessions.get((group_id, member_id))
        if session is None:
            message = f"member {member_id} of group {group_id} has no share session here"
            raise KafkaError(ErrorCode.share_session_not_found, message)
        if epoch != session.epoch:
            message = f"the share session is in epoch {session.epoch}, not in {epoch}"
            raise KafkaError(ErrorCode.invalid_share_session_epoch, message)
        # Counted before the request is handled: one that fails has used its epoch.
        session.count(now_ms)
        return session

    def of(self, group_id: str, member_id: str) -> ShareSession | None:
        """The session of a member, if it has one."""
        return self._sessions.get((group_id, member_id))

    def close(self, group_id: str, member_id: str) -> ShareSession:
        """End a session. Raises KafkaError(share_session_not_found)."""
        session = self._sessions.pop((group_id, member_id), None)
        if session is None:
            message = f"member {member_id} of group {group_id} has no share session here"
            raise KafkaError(ErrorCode.share_session_not_found, message)
        return session

    def is_open(self, session: ShareSession) -> bool:
        """Whether this is still the session of its member. A fetch that waits asks before it
        acquires: a member that left would hold the records until their lock ends."""
        return self._sessions.get((session.group_id, session.member_id)) is session

    def has(self, group_id: str, but: str) -> bool:
        """Whether the group has a session here of another member than this one."""
        return any(key[0] == group_id and key[1] != but for key in self._sessions)
