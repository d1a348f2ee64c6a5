"""A virtual member of a group of the consumer protocol (KIP-848): heartbeats, takes what it is
told, gives up what it is not told any more, commits; leaves, crashes, stands still, comes back.

It does what clients do: one heartbeat at a time, all of it said again when an answer is missing. It
counts itself out before its coordinator may: when no heartbeat that left within most of a session
was answered it has nothing any more, and joins anew. So what it has is its own at any moment.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.wire import apis
from josefine_broker.wire.entities import consumer_group_heartbeat as e
from josefine_broker.wire.entities import offset_commit
from tests.simulation.cluster.group_clients import TIMEOUT_MS, GroupClient
from tests.simulation.cluster.group_names import CONSUMER_BEAT_MS as BEAT_MS

if TYPE_CHECKING:
    from tests.simulation.cluster.group_facts import Commit
    from tests.simulation.cluster.group_watch import GroupWatch

__all__ = ["ConsumerMember"]

BEAT, COMMIT = (apis.CONSUMER_GROUP_HEARTBEAT, 1), (apis.OFFSET_COMMIT, 9)
OUT_AFTER_MS = 1_000
"""Without an answer it counts itself out: a broker's clock may run a fifth faster than ours."""
REBALANCE_MS = 2_500
GIVES_UP_AT_ONCE = 0.4
"""So often; else within this time, in which it heartbeats on."""
GIVES_UP_MS_MAX = 700
MISBEHAVES = 0.1
"""At each beat: of what a member may do besides its duty."""
AGAIN = frozenset({ErrorCode.coordinator_load_in_progress, ErrorCode.unsupported_version})
"""The second while brokers of before are in the cluster."""
OUT = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})
AWAY = frozenset({ErrorCode.not_coordinator, ErrorCode.coordinator_not_available})


class ConsumerMember(GroupClient):
    """One process of one member."""

    def __init__(
        self, watch: GroupWatch, node: int, rng: Random, group: str, instance: str | None
    ) -> None:
        super().__init__(watch, node, rng, group)
        self.instance = instance
        self.member_id = ""
        self.generation = 0
        """Its epoch."""
        self.owned: dict[TopicPartition, int] = {}
        """What it has, with its position."""
        self.is_live = True
        self.is_stable = False
        """It knows where to go on with all it has."""
        self._is_sure = False
        self._said: frozenset[TopicPartition] | None = None
        self._told: frozenset[TopicPartition] | None = None
        """What it was told and has not taken yet, for it gives something up before."""
        self._answered_ms = 0
        """When the last heartbeat left that was answered,"""
        self._vouched_ms = 0
        """and that was answered by who coordinated the group all the while."""
        self._number = 0

    def __str__(self) -> str:
        return f"{self.group}/{self.node}"

    @property
    def owner(self) -> str:
        """A static member keeps its name over its processes."""
        return self.member_id if self.instance is None else self.instance

    @property
    def held(self) -> set[TopicPartition]:
        """What it has at this moment."""
        return set() if self._now_ms >= self._vouched_ms + OUT_AFTER_MS else set(self.owned)

    @property
    def _now_ms(self) -> int:
        return self.world.scheduler.now_ms

    @property
    def _is_out(self) -> bool:
        return self._now_ms >= self._answered_ms + OUT_AFTER_MS

    def start(self) -> None:
        """A new process, under a member id of its own."""
        self.life += 1
        self._number += 1
        self.member_id = f"{self.node}-{self._number}"
        self._lose_all()
        if any(tp.topic not in self.world.view.image.topics for tp in self.watch.reads):
            self.soon(self.start, 200)
        else:
            self.find(self._beat)

    def _lose_all(self) -> None:
        self.is_stable = self._is_sure = False
        self.generation = 0
        self.owned = {}
        self._said = self._told = None

    # -- heartbeats

    def _beat(self) -> None:
        if self.generation and self._is_out:
            self.world.met["consumer member counted itself out"] += 1
            self._lose_all()
        if self.generation and not self.watch.is_calm and self.rng.random() < MISBEHAVES:
            self.rng.choice((self._leave, self._crash, self._stand_still))()
            return
        has = frozenset(self.owned)
        is_full = not self._is_sure
        request = e.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.generation,
            instance_id=self.instance,
            rebalance_timeout_ms=REBALANCE_MS if is_full else -1,
            subscribed_topic_names=self._topics if is_full else None,
            topic_partitions=self._parts(has) if is_full or has != self._said else None,
        )
        then = partial(self._beaten, self._now_ms, self.coordinated_by(), has)
        self.ask_coordinator(BEAT, request, then, TIMEOUT_MS)

    @property
    def _topics(self) -> tuple[str, ...]:
        return tuple(sorted({tp.topic for tp in self.watch.reads}))

    def _parts(self, has: frozenset[TopicPartition]) -> tuple[e.TopicPartitions, ...]:
        topics = self.world.view.image.topics
        return tuple(
            e.TopicPartitions(
                topic_id=topics[name].topic_id,
                partitions=tuple(sorted(tp.partition for tp in has if tp.topic == name)),
            )
            for name in sorted({tp.topic for tp in has})
        )

    def _beaten(
        self,
        sent_ms: int,
        asked: tuple[int, int],
        has: frozenset[TopicPartition],
        answer: e.ConsumerGroupHeartbeatResponse | None,
    ) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            self._failed(None if answer is None else answer.error_code)
            return
        assert answer.member_epoch >= self.generation, f"{self}: an epoch fell"
        self.generation = answer.member_epoch
        self._answered_ms, self._is_sure, self._said = sent_ms, True, has
        if self.is_current(asked):
            self._vouched_ms = sent_ms
        else:
            self.world.met["member kept by a former coordinator"] += 1
        if answer.assignment is None:
            self._go_on()
            return
        names = self.world.view.image.topic_names
        told = [
            TopicPartition(names[each.topic_id], index)
            for each in answer.assignment.topic_partitions
            if each.topic_id is not None
            for index in each.partitions
        ]
        self.world.met["consumer assignment told"] += 1
        self.watch.assigned(self, self.generation, told)
        self._told = frozenset(told)
        if set(self.owned) <= self._told or self.rng.random() < GIVES_UP_AT_ONCE:
            self._take()
        else:
            self.world.met["consumer member gave up slowly"] += 1
            self.soon(self._take, self.rng.randrange(GIVES_UP_MS_MAX))
        self._go_on()

    def _take(self) -> None:
        """What it was told last is what it has: it gave the rest up."""
        if self._told is None:
            return
        self.owned = {tp: self.owned.get(tp, -1) for tp in sorted(self._told)}
        self._told = None
        self.is_stable = False
        self.watch.holds(self.group)

    def _know_places(self) -> None:
        """Where to go on with what is new."""
        new = sorted(tp for tp, offset in self.owned.items() if offset < 0)
        if new:
            self.fetch(new, self._fetched)
        else:
            self.is_stable = True
            self._go_on()

    def _fetched(self, code: ErrorCode | None, offsets: dict[TopicPartition, int]) -> None:
        if code is ErrorCode.none:
            self.owned.update((tp, each) for tp, each in offsets.items() if tp in self.owned)
            self._know_places()
        else:
            self._failed(code)

    def _go_on(self) -> None:
        if not self.is_stable:
            self._know_places()
        elif self.watch.is_committing and self.owned and not self._is_out:
            self.soon(self._commit, 1 + self.rng.randrange(BEAT_MS))
        else:
            self.soon(self._beat, BEAT_MS)

    def _failed(self, code: ErrorCode | None) -> None:
        """None: no answer. What it has it keeps, as long as its session may last."""
        what = "nothing" if code is None else code.name
        self.world.met[f"consumer member told {what}"] += 1
        self._is_sure = False
        if code is None or code in AWAY:
            self.soon(partial(self.find, self._beat))
        elif code in AGAIN or code is ErrorCode.unreleased_instance_id:
            self.soon(self._beat, BEAT_MS)
        elif code in OUT:
            self._lose_all()
            self.soon(self._beat)
        elif code is ErrorCode.stale_member_epoch:
            self.soon(self._beat)
        else:
            raise AssertionError(f"{self} was told {code.name}")

    # -- commits

    def _commit(self) -> None:
        if not self.owned:  # it had to give up all of it since it was about to
            self.soon(self._beat)
            return
        tps = sorted(self.owned)
        if self.rng.random() < 0.5:
            tps = [self.rng.choice(tps)]
        sent = []
        for tp in tps:
            self.owned[tp] += 1 + self.rng.randrange(5)
            sent.append(self.watch.sends(self, tp, self.owned[tp], self.generation))
        request = offset_commit.OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance,
            topics=tuple(
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
            ),
        )
        self.ask_coordinator(COMMIT, request, partial(self._committed, sent), TIMEOUT_MS)

    def _committed(
        self, sent: list[Commit], answer: offset_commit.OffsetCommitResponse | None
    ) -> None:
        code: ErrorCode | None = None
        if answer is not None:
            code = answer.topics[0].partitions[0].error_code
        if code is ErrorCode.unknown_topic_or_partition:
            self.soon(self._beat)  # a coordinator that has not applied yet that it was made
        elif code is not ErrorCode.none:
            self._failed(code)
        else:
            for commit in sent:
                self.watch.acknowledged(commit)
            self.soon(self._beat, self.rng.randrange(BEAT_MS))

    # -- what else may happen to it

    def _leave(self) -> None:
        """For good; a static one for a while."""
        self.world.met["consumer member left"] += 1
        request = e.ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=-1 if self.instance is None else -2,
            instance_id=self.instance,
        )
        self.ask(self.coordinator, BEAT, request, TIMEOUT_MS, lambda _: None)
        self._end(self.start)

    def _crash(self) -> None:
        self.world.met["consumer member crashed"] += 1
        self.crash()
        self._end(self.start)

    def _end(self, then: Callable[[], None]) -> None:
        self.life += 1
        self._lose_all()
        self.after_ms(200 + self.rng.randrange(2_500), then)

    def _stand_still(self) -> None:
        """Longer than its session, sometimes; then it commits all the same."""
        self.world.met["consumer member stood still"] += 1
        self.soon(self._commit if self.owned else self._beat, 500 + self.rng.randrange(3_000))
