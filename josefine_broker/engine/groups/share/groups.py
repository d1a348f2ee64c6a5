"""The share groups of a broker, and the session deadlines of their members. Mutable.

Rules: each accepted heartbeat renews the session, and so does a new coordinator. See
`groups/consumer/coordinated.py`. A session of a group's member is not a share session
(`sessions.py`), which is between a member and the leader of a partition.
"""

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.consumer.coordinated import CoordinatedGroups
from josefine_broker.engine.groups.consumer.subscriptions import Topics
from josefine_broker.engine.groups.share.group import (
    JOINING_EPOCH,
    ShareBeat,
    ShareBeatAnswer,
    ShareGroup,
)
from josefine_broker.engine.groups.share.heartbeats import check, heartbeat


class ShareGroups(CoordinatedGroups[ShareGroup]):
    """The groups by id, and the deadlines of their members."""

    __slots__ = ()

    def beat(
        self, group_id: str, beat: ShareBeat, topics: Topics
    ) -> tuple[ShareGroup, ShareBeatAnswer]:
        """How a heartbeat changes its group, and its answer. Raises the KafkaErrors of `heartbeat`;
        also UNKNOWN_MEMBER_ID for an unknown group, after which the member joins again."""
        check(beat)
        group = self._groups.get(group_id)
        if group is None:
            if beat.epoch != JOINING_EPOCH:
                raise KafkaError(ErrorCode.unknown_member_id, f"group {group_id} does not exist")
            group = ShareGroup(group_id=group_id)
        is_news = self.is_news(group_id, topics)
        return heartbeat(group, beat, topics, self.size_max, is_news=is_news)

    def is_idle_beat(
        self, group_id: str, member_id: str, epoch: int, topics: Topics, now_ms: int
    ) -> bool:
        """Whether a heartbeat that reports only who sends it, in which epoch, changes nothing and
        gets no assignment. Then it has renewed the session, as `beat` and `beaten` would; else
        nothing was done, and they have the result."""
        group = self._groups.get(group_id)
        member = None if group is None else group.members.get(member_id)
        return (
            group is not None
            and member is not None
            and epoch == member.epoch == group.target_epoch == group.epoch
            and member.assigned == group.target_of(member_id)
            and self._seen.get(group_id) is topics
            and self._renewed((group_id, member_id), now_ms + self.timeout_ms_of(group_id))
        )

    def beaten(self, group_id: str, member_id: str, topics: Topics, now_ms: int) -> None:
        """An accepted heartbeat: its group is kept, its member's session renewed."""
        self._seen[group_id] = topics
        if member_id in self._groups[group_id].members:
            self._renew(group_id, member_id, now_ms)

    def keep(self, group: ShareGroup, now_ms: int) -> None:
        """Replace the group by this state, which is in the log. New members get a session: they are
        those of a loaded group, or have just joined."""
        before = self._replace(group)
        for member_id in group.members:
            if before is None or member_id not in before.members:
                self._renew(group.group_id, member_id, now_ms)

    def _renew(self, group_id: str, member_id: str, now_ms: int) -> None:
        place = group_id, member_id
        self._arm(self._sessions, place, now_ms + self.timeout_ms_of(group_id))
