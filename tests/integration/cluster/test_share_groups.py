"""A share group on three brokers, whose leaders are killed: no record that was accepted comes back,
none is lost, and what was rejected has a dead letter."""

from __future__ import annotations

from collections.abc import Container
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client import groups
from josefine_broker.client.config_admin import RESOURCE_GROUP, alter_resource
from josefine_broker.client.effects import Call, Exchange, Operation, Unanswered
from josefine_broker.client.io_blocking import BlockingClient, BlockingProducer, NewTopic
from josefine_broker.client.session import Session
from josefine_broker.engine.coordinators.share_states_host import coordinator_key
from josefine_broker.engine.groups.offsets import coordinator_partition
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.records.batch import iter_batches
from josefine_broker.records.reader import read_records
from josefine_broker.wire import apis
from josefine_broker.wire import entities as e
from tests.support.cluster import REPLICATED, Cluster
from tests.support.waiting import wait_until

TOPIC, GROUP, ME = "shared", "readers", "member-1"
STATES = "__share_group_state"
RECORDS = 300
ACCEPT, REJECT = 1, 3
LETTERS = "dlq.shared"


class Member:
    """The only member: it accepts what it gets, but for records with these numbers modulo 3, which
    it rejects; and it knows what the brokers have confirmed."""

    def __init__(
        self, cluster: Cluster, client: BlockingClient, rejects: Container[int] = ()
    ) -> None:
        self._rejects = rejects
        self._cluster = cluster
        self._client = client
        self.key: ShareKey | None = None
        self._leader = -1
        self._session = 0
        self._held: list[tuple[int, int]] = []
        self.fetches = 0
        self.accepted: set[int] = set()

    def join(self) -> None:
        def check(answer: Any) -> KafkaError | None:
            code = answer.error_code
            return None if code is ErrorCode.none else KafkaError(code, answer.error_message or "")

        request = e.share_group_heartbeat.ShareGroupHeartbeatRequest(
            group_id=GROUP, member_id=ME, member_epoch=0, subscribed_topic_names=(TOPIC,)
        )

        def beat(session: Session, now_ms: int, deadline_ms: int) -> Operation[Any]:
            attempts = session.start(now_ms, deadline_ms, "share group")
            api_key = apis.SHARE_GROUP_HEARTBEAT
            return (
                yield from groups.ask_coordinator(session, attempts, GROUP, api_key, request, check)
            )

        answer = self._client.run(beat)
        (topic,) = answer.assignment.topic_partitions
        self.key = ShareKey(GROUP, topic.topic_id, topic.partitions[0])

    def fetch(self) -> bool:
        """Accept what the last fetch brought, and get more; returns whether there was any."""
        assert self.key is not None
        f = e.share_fetch
        acks = tuple(
            f.AcknowledgementBatch(
                first_offset=a,
                last_offset=b,
                acknowledge_types=tuple(
                    REJECT if offset % 3 in self._rejects else ACCEPT for offset in range(a, b + 1)
                ),
            )
            for a, b in self._held
        )
        part = f.FetchPartition(partition_index=self.key.partition, acknowledgement_batches=acks)
        request = f.ShareFetchRequest(
            group_id=GROUP,
            member_id=ME,
            share_session_epoch=self._session,
            max_wait_ms=200,
            min_bytes=1,
            max_records=20,
            batch_size=20,
            topics=(f.FetchTopic(topic_id=self.key.topic_id, partitions=(part,)),),
            forgotten_topics_data=(),
        )

        def ask(session: Session, now_ms: int, deadline_ms: int) -> Operation[Any]:
            call = Call(node=self._leader, api_key=apis.SHARE_FETCH, request=request)
            resumed = yield Exchange(calls=(call,), deadline_ms=deadline_ms)
            return resumed.replies[0]

        answer = self._client.run(ask) if self._leader >= 0 else None
        parts = []
        if answer is not None and not isinstance(answer, Unanswered):
            parts = [each for topic in answer.responses for each in topic.partitions]
        is_bad = answer is None or isinstance(answer, Unanswered) or answer.error_code.value
        if is_bad or any(each.error_code.value for each in parts):
            # What it holds is not accepted: others may get it.
            self._held, self._session = [], 0
            self._leader = self._cluster.leader_of(TOPIC)
            self._client.metadata([TOPIC])
            return False
        self._session += 1
        self.fetches += 1
        if acks and parts and not parts[0].acknowledge_error_code:
            for first, last in self._held:
                self.accepted.update(range(first, last + 1))
        self._held = []
        for each in parts:
            for acquired in each.acquired_records:
                assert acquired.delivery_count <= 5
                first, last = acquired.first_offset, acquired.last_offset
                again = self.accepted & set(range(first, last + 1))
                assert not again, f"accepted and delivered again: {sorted(again)}"
                self._held.append((first, last))
        return bool(self._held)


def accept_a_third(client: BlockingClient, member: Member) -> None:
    """The member joins, records are produced, and it has accepted a third of them."""
    member.join()
    # Twice: the first fetch lets the group start, before there are records.
    wait_until(lambda: not member.fetch() and member.fetches > 1, timeout_s=60, what="it fetches")
    producer = BlockingProducer(client)
    for number in range(RECORDS):
        producer.send(TOPIC, value=b"v%d" % number)
        if number % 10 == 0:
            producer.flush()
    producer.flush()
    wait_until(
        lambda: member.fetch() and len(member.accepted) > RECORDS // 3,
        timeout_s=60,
        what="a third is accepted",
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("victim", [TOPIC, STATES])
def test_killed_leader_costs_no_accepted_record(tmp_path: Path, victim: str) -> None:
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()
        with BlockingClient(cluster.bootstrap) as client:
            client.create_topics([NewTopic(TOPIC, partitions=1)])
            member = Member(cluster, client)
            accept_a_third(client, member)
            assert member.key is not None
            index = coordinator_partition(coordinator_key(member.key), 8)
            cluster.kill(cluster.leader_of(victim, index if victim == STATES else 0))
            wait_until(
                lambda: member.fetch() is not None and len(member.accepted) == RECORDS,
                timeout_s=90,
                what="every record is accepted",
            )


def _with_config(
    config: dict[str, str], session: Session, now_ms: int, deadline_ms: int
) -> Operation[None]:
    yield from alter_resource(session, RESOURCE_GROUP, GROUP, config, now_ms, deadline_ms)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_leader_costs_no_dead_letter(tmp_path: Path) -> None:
    """Each rejected record has a letter, perhaps two; no accepted one has."""
    with Cluster(tmp_path, **REPLICATED) as cluster:
        cluster.wait_settled()
        with BlockingClient(cluster.bootstrap) as client:
            takes = {"errors.deadletterqueue.group.enable": "true"}
            client.create_topics([NewTopic(TOPIC, 1), NewTopic(LETTERS, 1, configs=takes)])
            config = {"errors.deadletterqueue.topic.name": LETTERS}
            client.run(partial(_with_config, config))
            member = Member(cluster, client, rejects={0})
            accept_a_third(client, member)
            cluster.kill(cluster.leader_of(TOPIC))
            rejected = {offset for offset in range(RECORDS) if offset % 3 == 0}
            wait_until(
                lambda: member.fetch() is not None and lettered(client) >= rejected,
                timeout_s=120,
                what="every rejected record has a letter",
            )
            assert lettered(client) == rejected


def lettered(client: BlockingClient) -> set[int]:
    """The offsets that dead letters name."""
    tp = TopicPartition(LETTERS, 0)
    found: set[int] = set()
    at = 0
    while True:
        data = client.fetch({tp: at}, max_wait_ms=0)[tp].records
        batches = list(iter_batches(data))
        if not batches:
            return found
        for pos, header in batches:
            at = header.end_offset
            for record in read_records(data[pos : pos + header.size_bytes]):
                told = dict(record.headers)
                found.add(int(told["__dlq.errors.offset"] or b""))
