"""A virtual member of a share group (KIP-932): heartbeats, acquires records, answers for them or
lets their lock end; crashes, comes back.

It has one request under way besides its heartbeat, in one share session for each leader. What it
gets and what is confirmed to it the watch hears of.
"""

from __future__ import annotations

from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from josefine_broker.base.errors import ErrorCode
from josefine_broker.base.ids import TopicPartition
from josefine_broker.wire import apis
from josefine_broker.wire.entities import share_acknowledge, share_fetch
from josefine_broker.wire.entities import share_group_heartbeat as h
from tests.simulation.cluster.clients import Target
from tests.simulation.cluster.coordinated import CoordinatedClient

if TYPE_CHECKING:
    from tests.simulation.cluster.share_watch import Delivery, ShareWatch

__all__ = ["ShareMember"]

BEAT, FETCH = (apis.SHARE_GROUP_HEARTBEAT, 1), (apis.SHARE_FETCH, 2)
ACKNOWLEDGE = apis.SHARE_ACKNOWLEDGE, 2
ACCEPT, RELEASE, REJECT, SILENT = 1, 2, 3, 0
ANSWERS, WEIGHTS = (ACCEPT, RELEASE, REJECT, SILENT), (70, 12, 4, 14)
BEAT_MS, WAIT_MS, TIMEOUT_MS = 250, 200, 900
RECORDS_MAX = 6
MISBEHAVES = 0.06
"""At each beat: it crashes."""
OUT = frozenset({ErrorCode.unknown_member_id, ErrorCode.fenced_member_epoch})


class _Held(NamedTuple):
    """Records that it is to answer for."""

    delivery: Delivery
    target: Target
    answer: int


class ShareMember(CoordinatedClient):
    """One process after another, each under a member id of its own."""

    def __init__(self, watch: ShareWatch, node: int, rng: Random, group: str) -> None:
        super().__init__(watch.world, node, rng, group)
        self.group = group
        self.watch = watch
        self.member_id = ""
        self._number = 0
        self._epoch = 0
        self._assigned: list[TopicPartition] = []
        self._sessions: dict[int, tuple[int, list[Target]]] = {}
        """Leader → the epoch of the next request, and the partitions of its session."""
        self._held: list[_Held] = []

    def __str__(self) -> str:
        return f"{self.group}/{self.member_id}"

    def start(self) -> None:
        """A new process."""
        self.life += 1
        self._number += 1
        self.member_id = f"{self.node}-{self._number}"
        self._epoch = 0
        self._assigned, self._held, self._sessions = [], [], {}
        if not self.watch.is_ready:
            self.soon(self.start, 200)
            return
        self.find(self._beat)
        self.soon(partial(self.refresh, self._of_this_life(self._work)), 100)

    # -- heartbeats

    def _beat(self) -> None:
        if self._epoch and not self.watch.is_calm and self.rng.random() < MISBEHAVES:
            self.world.met["share member crashed"] += 1
            self.crash()
            self.after_ms(300, self.start)
            return
        request = h.ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self._epoch,
            subscribed_topic_names=(
                tuple(sorted({tp.topic for tp in self.watch.reads})) if not self._epoch else None
            ),
        )
        self.ask_coordinator(BEAT, request, self._beaten, TIMEOUT_MS)

    def _beaten(self, answer: h.ShareGroupHeartbeatResponse | None) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            if answer is not None and answer.error_code in OUT:
                self._epoch = 0
            self.soon(partial(self.find, self._beat), 100)
            return
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            names = self.world.view.image.topic_names
            self._assigned = [
                TopicPartition(names[topic.topic_id], index)
                for topic in answer.assignment.topic_partitions
                if topic.topic_id is not None and topic.topic_id in names
                for index in topic.partitions
            ]
        self.soon(self._beat, BEAT_MS)

    # -- records

    def _work(self) -> None:
        """The next request: an answer that is due, or a fetch."""
        held, self._held = self._held, []
        due = [each for each in held if each.answer != SILENT]
        if due:
            leader = due[0].delivery.leader.broker_id
            mine = [each for each in due if each.delivery.leader.broker_id == leader]
            self._held = [each for each in due if each not in mine]
            self._answer(leader, mine)
            return
        led: dict[int, list[Target]] = {}
        for target, leader in sorted(self.leaders.items()):
            if leader >= 0 and TopicPartition(target.name, target.partition) in self._assigned:
                led.setdefault(leader, []).append(target)
        if led:
            leader = self.rng.choice(sorted(led))
            self._fetch(leader, led[leader])
        else:
            self._look_again()

    def _look_again(self) -> None:
        again = partial(self.refresh, self._of_this_life(self._work))
        self.soon(again, 40 + self.rng.randrange(60))

    def _fetch(self, leader: int, parts: list[Target]) -> None:
        f = share_fetch
        epoch, opened = self._sessions.get(leader, (0, []))
        if opened != parts:
            epoch = 0
        self._sessions[leader] = epoch + 1, parts
        topics = tuple(
            f.FetchTopic(
                topic_id=part.topic_id,
                partitions=(
                    f.FetchPartition(partition_index=part.partition, acknowledgement_batches=()),
                ),
            )
            for part in (parts if epoch == 0 else ())
        )
        request = f.ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            share_acquire_mode=1,
            topics=topics,
            forgotten_topics_data=(),
        )
        asked = {part: self.watch.leader_of(leader, part) for part in parts}
        then = self._of_this_life(partial(self._fetched, leader, asked, self.watch.now_ms))
        self.ask(leader, FETCH, request, TIMEOUT_MS, then)

    def _fetched(
        self, leader: int, asked: dict[Target, Any], sent_ms: int, answer: Any | None
    ) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            self._sessions.pop(leader, None)
            self._look_again()
            return
        is_bad = False
        for topic in answer.responses:
            for part in topic.partitions:
                is_bad |= part.error_code is not ErrorCode.none
                target = next(
                    (t for t in asked if t[0] == topic.topic_id and t[2] == part.partition_index),
                    None,
                )
                if target is None:
                    continue
                for each in part.acquired_records:
                    got = each.first_offset, each.last_offset, each.delivery_count
                    delivery = self.watch.got(self, target, asked[target], sent_ms, got)
                    choice = self.rng.choices(ANSWERS, WEIGHTS)[0]
                    held = _Held(delivery, target, ACCEPT if self.watch.is_calm else choice)
                    self.world.met["record acquired and let go"] += held.answer == SILENT
                    self._held.append(held)
        if is_bad:
            self._look_again()
        else:
            self.soon(self._work, 5 + self.rng.randrange(80))

    def _answer(self, leader: int, held: list[_Held]) -> None:
        a = share_acknowledge
        epoch, parts = self._sessions.get(leader, (0, []))
        if epoch == 0:
            self._look_again()  # the session is gone, and with it the chance to answer
            return
        self._sessions[leader] = epoch + 1, parts
        by_target: dict[Target, list[_Held]] = {}
        for each in held:
            by_target.setdefault(each.target, []).append(each)
        topics = tuple(
            a.AcknowledgeTopic(
                topic_id=target.topic_id,
                partitions=(
                    a.AcknowledgePartition(
                        partition_index=target.partition,
                        acknowledgement_batches=tuple(
                            a.AcknowledgementBatch(
                                first_offset=each.delivery.first,
                                last_offset=each.delivery.last,
                                acknowledge_types=(each.answer,),
                            )
                            for each in sorted(mine, key=lambda one: one.delivery.first)
                        ),
                    ),
                ),
            )
            for target, mine in by_target.items()
        )
        request = a.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=epoch,
            topics=topics,
        )
        for each in held:
            self.watch.answers(each.delivery, is_accepted=each.answer == ACCEPT)
        then = self._of_this_life(partial(self._answered, leader, by_target))
        self.ask(leader, ACKNOWLEDGE, request, TIMEOUT_MS, then)

    def _answered(self, leader: int, held: dict[Target, list[_Held]], answer: Any | None) -> None:
        if answer is None or answer.error_code is not ErrorCode.none:
            self._sessions.pop(leader, None)
            self._look_again()
            return
        for topic in answer.responses:
            for part in topic.partitions:
                self.world.met[f"share answer told {part.error_code.name}"] += 1
                if part.error_code is not ErrorCode.none:
                    continue
                for target, mine in held.items():
                    if target[0] == topic.topic_id and target[2] == part.partition_index:
                        for each in mine:
                            if each.answer in (ACCEPT, REJECT):
                                self.watch.confirmed(each.delivery)
        self.soon(self._work, 5 + self.rng.randrange(80))
