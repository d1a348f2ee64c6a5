"""A virtual member that still speaks the classic protocol, in the group of the consumer protocol
(KIP-848, `group.consumer_migration_policy`): what it says and is given are real subscriptions and
assignments, for the coordinator reads them.

It is eager: it has nothing any more when it joins. It counts itself out before its coordinator may,
as a member of the consumer protocol does, so what it has is its own at any moment, as far as those
answered who coordinate the group (`invariants/holders_are_single.py`).
"""

from __future__ import annotations

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.consumer_protocol import (
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from josefine_broker.wire.entities import heartbeat, join_group, sync_group
from tests.simulation.cluster.group_members import GroupMember

__all__ = ["MigratingMember"]

OUT_AFTER_MS = 850
"""Without an answer it counts itself out: a broker's clock may run a fifth faster than ours."""


class MigratingMember(GroupMember):
    """One process of one dynamic member."""

    _heard_ms = 0
    """When the last join, sync or heartbeat left that was answered well."""
    _vouched_ms = 0
    """The same, by who coordinated the group all the while."""
    _sent_ms = 0
    _asked = (-1, -1)
    """The coordinator when the last join, sync or heartbeat left."""
    _is_of_both = False
    """Its group had members of both protocols when it joined last."""

    @property
    def held(self) -> set[TopicPartition]:
        """What it has at this moment."""
        is_out = self.world.scheduler.now_ms >= self._vouched_ms + OUT_AFTER_MS
        return set() if is_out else set(self.owned)

    @property
    def _is_out(self) -> bool:
        return self.world.scheduler.now_ms >= self._heard_ms + OUT_AFTER_MS

    @property
    def _subscription(self) -> bytes:
        return encode_subscription({tp.topic for tp in self.watch.reads})

    def _assignment(self, tps: list[TopicPartition]) -> bytes:
        return encode_assignment(tps)

    def _given(self, assignment: bytes) -> list[TopicPartition]:
        return list(decode_assignment(assignment))

    def _joined(self, answer: join_group.JoinGroupResponse | None) -> None:
        if answer is not None and answer.generation_id > 0 and not answer.leader:
            self.world.met["classic member let in by a consumer group"] += 1
            self._is_of_both = True
        elif answer is not None and answer.leader:
            met = self._is_of_both and answer.member_id == self.member_id
            self.world.met["classic member left to its own protocol"] += met
            self._is_of_both = False
        super()._joined(answer)

    def _sync(self, joined: join_group.JoinGroupResponse) -> None:
        self._leaves()
        super()._sync(joined)

    def _synced(self, generation: int, answer: sync_group.SyncGroupResponse | None) -> None:
        self._hears()
        super()._synced(generation, answer)
        if self.owned:
            self.watch.holds(self.group)

    def _beat(self) -> None:
        if self._is_out:
            self.world.met["classic member counted itself out"] += 1
            self._join_again()
            return
        self._leaves()
        super()._beat()

    def _beaten(self, answer: heartbeat.HeartbeatResponse | None) -> None:
        if answer is not None and not answer.error_code.value:
            self._hears()
        super()._beaten(answer)

    def _leaves(self) -> None:
        self._sent_ms, self._asked = self.world.scheduler.now_ms, self.coordinated_by()

    def _hears(self) -> None:
        self._heard_ms = self._sent_ms
        if self.is_current(self._asked):
            self._vouched_ms = self._sent_ms
        else:
            self.world.met["member kept by a former coordinator"] += 1

    def _commit(self) -> None:
        if self._is_out:
            self._beat()
        else:
            super()._commit()
