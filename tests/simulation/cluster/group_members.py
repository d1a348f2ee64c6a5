"""A virtual member of a consumer group: finds its coordinator, joins, syncs, fetches offsets, then
heartbeats and commits; leaves, crashes, stands still, and comes back.

What it does on each answer is what clients do: who is told of a rebalance joins again, who is not
known (any more) forgets its id, who is fenced ends. It is the leader's part to assign: partitions
in turn to the members, by name. A static member's next process may come while the former lives on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.wire import apis
from josefine_broker.wire.entities import (
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    sync_group,
)
from tests.simulation.cluster.group_clients import TIMEOUT_MS, GroupClient

if TYPE_CHECKING:
    from tests.simulation.cluster.group_facts import Commit
    from tests.simulation.cluster.group_watch import GroupWatch

__all__ = ["GroupMember"]

JOIN, SYNC = (apis.JOIN_GROUP, 9), (apis.SYNC_GROUP, 5)
BEAT, LEAVE, COMMIT = (apis.HEARTBEAT, 4), (apis.LEAVE_GROUP, 5), (apis.OFFSET_COMMIT, 9)
SESSION_MS, REBALANCE_MS = 1_200, 1_500
BEAT_MS = 300
JOIN_TIMEOUT_MS = 5_000
MISBEHAVES = 0.1
"""At each beat: of what a member may do besides its duty."""
SUBSCRIPTION = bytes.fromhex("0000 00000000 ffffffff")
MOVED = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})
AGAIN = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.unknown_topic_or_partition})
"""The second of a coordinator that has not applied yet that the topic was made."""
OUT = frozenset({ErrorCode.unknown_member_id, ErrorCode.illegal_generation})


class GroupMember(GroupClient):
    """One process of one member."""

    def __init__(
        self, watch: GroupWatch, node: int, rng: Random, group: str, instance: str | None
    ) -> None:
        super().__init__(watch, node, rng, group)
        self.instance = instance
        self.member_id = ""
        self.generation = -1
        self.owned: dict[TopicPartition, int] = {}
        """What it was given, with its position."""
        self.is_live = True
        """It was not fenced by its successor."""
        self.is_stable = False
        """It has its assignment, and knows where to go on."""

    def __str__(self) -> str:
        return f"{self.group}/{self.node}"

    @property
    def owner(self) -> str:
        """By what others know it: a static member keeps its name over its processes."""
        return self.member_id if self.instance is None else self.instance

    def start(self) -> None:
        """A new process."""
        self.life += 1
        self.member_id = ""
        self._rest()
        if any(tp.topic not in self.world.view.image.topics for tp in self.watch.reads):
            self.soon(self.start, 200)
        else:
            self.find(self._join)

    def _rest(self) -> None:
        self.is_stable = False
        self.generation = -1
        self.owned = {}

    def _failed(self, code: ErrorCode | None, then: Callable[[], None]) -> None:
        """`then` is done again when the trouble may be over. None: no answer."""
        what = "nothing" if code is None else code.name
        self.world.met[f"member told {what}"] += 1
        if code is None or code in MOVED:
            self.soon(partial(self.find, then))
        elif code in AGAIN:
            self.soon(then)
        elif code is ErrorCode.rebalance_in_progress:
            self._join_again()
        elif code in OUT:
            if code is ErrorCode.unknown_member_id:
                self.member_id = ""
            self._join_again()
        elif code is ErrorCode.group_id_not_found and self.watch.may_be_lost(self.group):
            self.member_id = ""  # a commit, once the group went with the records of it
            self._join_again()
        elif code is ErrorCode.fenced_instance_id:
            self.life += 1
            self._rest()
            self.is_live = False
        else:
            raise AssertionError(f"{self} was told {code.name}")

    # -- becoming a member

    @property
    def _subscription(self) -> bytes:
        return SUBSCRIPTION

    def _assignment(self, tps: list[TopicPartition]) -> bytes:
        """Places in what every member reads: the coordinator does not look into it."""
        return bytes(self.watch.reads.index(tp) for tp in tps)

    def _given(self, assignment: bytes) -> list[TopicPartition]:
        return [self.watch.reads[at] for at in assignment]

    def _join_again(self) -> None:
        self._rest()
        self.soon(self._join)

    def _join(self) -> None:
        said = self._subscription
        protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=said)
        request = join_group.JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=(protocol,),
        )
        self.ask_coordinator(JOIN, request, self._joined, JOIN_TIMEOUT_MS)

    def _joined(self, answer: join_group.JoinGroupResponse | None) -> None:
        if answer is not None and answer.error_code is ErrorCode.member_id_required:
            self.member_id = answer.member_id
            self._join()
        elif answer is None or answer.error_code is not ErrorCode.none:
            self._failed(None if answer is None else answer.error_code, self._join)
        else:
            self.member_id = answer.member_id
            self._sync(answer)

    def _sync(self, joined: join_group.JoinGroupResponse) -> None:
        given: dict[str, list[int]] = {}
        if joined.leader == self.member_id and not joined.skip_assignment:
            names = sorted(each.member_id for each in joined.members)
            given = {name: [] for name in names}
            for at in range(len(self.watch.reads)):
                given[names[at % len(names)]].append(at)
        request = sync_group.SyncGroupRequest(
            group_id=self.group,
            generation_id=joined.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=tuple(
                sync_group.SyncGroupRequestAssignment(
                    member_id=name,
                    assignment=self._assignment([self.watch.reads[at] for at in places]),
                )
                for name, places in given.items()
            ),
        )
        then = partial(self._synced, joined.generation_id)
        self.ask_coordinator(SYNC, request, then, JOIN_TIMEOUT_MS)

    def _synced(self, generation: int, answer: sync_group.SyncGroupResponse | None) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            self._failed(None if answer is None else answer.error_code, self._join)
            return
        tps = self._given(answer.assignment)
        self.watch.assigned(self, generation, tps)
        self.generation = generation
        self.owned = dict.fromkeys(tps, 0)
        self._fetch()

    def _fetch(self) -> None:
        """Where to go on."""
        self.fetch(list(self.owned), self._fetched)

    def _fetched(self, code: ErrorCode | None, offsets: dict[TopicPartition, int]) -> None:
        if code is not ErrorCode.none:
            self._failed(code, self._fetch)
            return
        self.owned = offsets
        self.is_stable = True
        self.soon(self._beat, self.rng.randrange(BEAT_MS))

    # -- being one

    def _beat(self) -> None:
        if not self.watch.is_calm and self.rng.random() < MISBEHAVES:
            what = [self._leave, self._crash, self._stand_still]
            if self.instance is not None:
                what.append(self._is_followed)
            self.rng.choice(what)()
            return
        request = heartbeat.HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
        )
        self.ask_coordinator(BEAT, request, self._beaten, TIMEOUT_MS)

    def _beaten(self, answer: heartbeat.HeartbeatResponse | None) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            self._failed(None if answer is None else answer.error_code, self._beat)
        elif self.watch.is_committing and self.owned:
            self.soon(self._commit, 1 + self.rng.randrange(BEAT_MS))
        else:
            self.soon(self._beat, BEAT_MS)

    def _commit(self) -> None:
        """All that it owns, or one of them."""
        tps = sorted(self.owned)
        if self.rng.random() < 0.5:
            tps = [self.rng.choice(tps)]
        sent = []
        for tp in tps:
            self.owned[tp] += 1 + self.rng.randrange(5)
            sent.append(self.watch.sends(self, tp, self.owned[tp], self.generation))
        topics = tuple(
            offset_commit.OffsetCommitRequestTopic(
                name=each.tp.topic,
                partitions=(
                    offset_commit.OffsetCommitRequestPartition(
                        partition_index=each.tp.partition,
                        committed_offset=each.offset,
                        committed_metadata=each.token,
                    ),
                ),
            )
            for each in sent
        )
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=topics,
        )
        self.ask_coordinator(COMMIT, request, partial(self._committed, sent), TIMEOUT_MS)

    def _committed(
        self, sent: list[Commit], answer: offset_commit.OffsetCommitResponse | None
    ) -> None:
        code: ErrorCode | None = None
        if answer is not None:
            codes = [part.error_code for topic in answer.topics for part in topic.partitions]
            assert len(codes) == len(sent)
            code = codes[0]
        if code is not ErrorCode.none:
            self._failed(code, self._beat)
            return
        for commit in sent:
            self.watch.acknowledged(commit)
        self.soon(self._beat, self.rng.randrange(BEAT_MS))

    # -- what else may happen to it

    def _leave(self) -> None:
        self.world.met["member left"] += 1
        who = leave_group.MemberIdentity(member_id=self.member_id, group_instance_id=self.instance)
        request = leave_group.LeaveGroupRequest(group_id=self.group, members=(who,))
        self.ask(self.coordinator, LEAVE, request, TIMEOUT_MS, lambda _: None)
        self._end()

    def _crash(self) -> None:
        self.world.met["member crashed"] += 1
        self.crash()
        self._end()

    def _end(self) -> None:
        self.life += 1
        self._rest()
        self.after_ms(200 + self.rng.randrange(2_500), self.start)

    def _stand_still(self) -> None:
        """Longer than its session, sometimes; then it goes on as if nothing had been."""
        self.world.met["member stood still"] += 1
        self.soon(self._commit if self.owned else self._beat, 500 + self.rng.randrange(3_500))

    def _is_followed(self) -> None:
        """Its next process comes, and it does not know that."""
        self.world.met["member followed by its next process"] += 1
        rng = Random(self.rng.random())
        self.watch.add(self.group, self.instance, self.node, rng).start()
        self.soon(self._commit if self.owned else self._beat, self.rng.randrange(1_000))
