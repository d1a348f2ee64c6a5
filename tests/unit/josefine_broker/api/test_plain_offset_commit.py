"""Offset commits by the plain path in one broker and by the general path in its twin: the same
bytes, the same records, offsets and waits after each step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from josefine_broker.api import plain_offset_commit
from josefine_broker.base.errors import ErrorCode
from josefine_broker.engine.coordinators.offsets_topic import LOOK_AGAIN_MS
from josefine_broker.engine.replicas.committing import AwaitCommit
from josefine_broker.wire.apis import APIS, CONSUMER_GROUP_HEARTBEAT, OFFSET_COMMIT
from josefine_broker.wire.entities import consumer_group_heartbeat
from josefine_broker.wire.entities import offset_commit as e
from josefine_broker.wire.known_requests import FRAME_BYTES_MAX, key_of
from tests.unit.josefine_broker.api.group_twins import REFUSED, Twins
from tests.unit.josefine_broker.api.test_plain_heartbeats import (
    has_access_control,
    has_quota,
    is_loading,
)

VERSIONS = range(APIS[OFFSET_COMMIT].min_version, APIS[OFFSET_COMMIT].max_version + 1)
IDS_SINCE, LAST = 10, VERSIONS[-1]
MEMBER = "m"


class Committing(Twins):
    """Twins that commit for the group `g`, without membership or as its only member."""

    def request(
        self,
        version: int,
        offset: int = 5,
        *,
        topic: str = "orders",
        index: int = 0,
        epoch: int = -1,
        metadata: str | None = "",
        **changes: Any,
    ) -> e.OffsetCommitRequest:
        """A commit of one partition; `changes` of the request."""
        part = e.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=epoch,
            committed_metadata=metadata,
        )  # fmt: skip
        by_id = version >= IDS_SINCE
        entry = self.world.ctx.image.topics.get(topic)
        named = e.OffsetCommitRequestTopic(
            name="" if by_id else topic,
            topic_id=entry.topic_id if by_id and entry is not None else None,
            partitions=(part,),
        )
        fields: dict[str, Any] = {"group_id": "g", "member_id": "", "topics": (named,)} | changes
        return e.OffsetCommitRequest(**fields)

    def commit(self, version: int, offset: int = 5, **changes: Any) -> Any:
        """The answer; None: it waits for the disk."""
        client_id = changes.pop("client_id", "c")
        return self.send(
            OFFSET_COMMIT, version, self.request(version, offset, **changes), client_id
        )

    def join(self) -> int:
        """The epoch of the member, of the consumer protocol."""
        answer = self.sent(CONSUMER_GROUP_HEARTBEAT, 1, (
            consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
                group_id="g", member_id=MEMBER, member_epoch=0, rebalance_timeout_ms=60_000,
                subscribed_topic_names=("orders",), topic_partitions=(),
            )
        ))  # fmt: skip
        assert answer.error_code is ErrorCode.none
        epoch: int = answer.member_epoch
        return epoch

    def committed(self) -> dict[tuple[str, int], int]:
        found = self.world.ctx.clients.groups.coordinator.offsets.committed("g")
        return {tuple(tp): each.offset for tp, each in found.items()}


def code_of(answer: Any) -> ErrorCode:
    code: ErrorCode = answer.topics[0].partitions[0].error_code
    return code


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("metadata", [None, ""])
@pytest.mark.parametrize("client_id", [None, "", "client"])
def test_a_commit_of_one_partition_is_served_plainly(
    version: int, metadata: str | None, client_id: str | None
) -> None:
    twins = Committing()
    for number, offset in enumerate((0, 7, 2**63 - 1, -1, -(2**63)), 1):
        fields = {"metadata": metadata, "client_id": client_id, "epoch": number % 2, "index": 2}
        assert twins.commit(version, offset, **fields) is None
        (answer,) = twins.settle()
        assert code_of(answer) is ErrorCode.none
        assert twins.committed() == {("orders", 2): offset}
        assert twins.plain.taken == number


@pytest.mark.parametrize("version", [9, 10])
def test_a_member_commits_in_its_epoch(version: int) -> None:
    twins = Committing()
    epoch = twins.join()
    before = twins.plain.taken
    member = {"member_id": MEMBER, "generation_id_or_member_epoch": epoch}
    assert twins.commit(version, **member) is None
    assert twins.plain.taken == before + 1
    twins.settle()
    for wrong in ({"generation_id_or_member_epoch": epoch + 1}, {"member_id": "x"}):
        assert code_of(twins.commit(version, **(member | wrong))) is not ErrorCode.none
    assert twins.plain.taken == before + 1


@pytest.mark.parametrize("version", [2, 8])
def test_a_member_of_the_consumer_protocol_needs_a_version_that_knows_it(version: int) -> None:
    twins = Committing()
    member = {"member_id": MEMBER, "generation_id_or_member_epoch": twins.join()}
    assert code_of(twins.commit(version, **member)) is ErrorCode.unsupported_version


@pytest.mark.parametrize("version", VERSIONS)
def test_what_is_not_plain_takes_the_general_path(version: int) -> None:
    twins = Committing()
    two = twins.request(version).topics + twins.request(version, topic="none").topics
    first = twins.request(version).topics[0]
    part = first.partitions[0]
    both = e.OffsetCommitRequestTopic(
        name=first.name, topic_id=first.topic_id, partitions=(part, part)
    )
    others: list[dict[str, Any]] = [
        {"metadata": "m"}, {"metadata": "too long for it"}, {"topic": "none"}, {"index": 3},
        {"index": -1}, {"topics": ()}, {"topics": two}, {"topics": (both,)},
        {"generation_id_or_member_epoch": 3}, {"client_id": "c" * FRAME_BYTES_MAX},
    ]  # fmt: skip
    if version <= 4:
        others += [{"retention_time_ms": 1_000}, {"retention_time_ms": 0}]
    for each in others:
        twins.commit(version, **each)
        twins.settle()
    assert twins.plain.taken == 0


@pytest.mark.parametrize("change", [has_quota, has_access_control, is_loading])
def test_what_is_not_plain_any_more_takes_the_general_path(change: Any) -> None:
    twins = Committing()
    twins.both(change)
    twins.commit(LAST)
    twins.settle()
    assert twins.plain.taken == 0


def test_a_commit_that_cannot_be_written_is_refused_alike() -> None:
    twins = Committing()
    twins.commit(LAST)
    twins.settle()

    def fill(side: Any) -> None:
        side.world.ctx.storage.is_full = True

    twins.both(fill)
    assert code_of(twins.commit(LAST, 6)) is ErrorCode.coordinator_not_available
    assert twins.plain.taken == 1
    assert twins.committed() == {("orders", 0): 5}


def test_a_sync_that_fails_and_one_that_does_not_end_are_reported_alike() -> None:
    twins = Committing()
    assert twins.commit(LAST) is None
    (late,) = twins.advance(twins.world.settings.offsets.timeout_ms)
    assert code_of(late) is ErrorCode.coordinator_not_available
    assert twins.committed() == {}
    assert twins.settle() == []  # answered, and counts all the same
    assert twins.committed() == {("orders", 0): 5}

    assert twins.commit(LAST, 6) is None
    twins.both(lambda side: setattr(side.world.files, "failing_sync", True))
    (failed,) = twins.settle()
    assert code_of(failed) is ErrorCode.coordinator_not_available
    assert twins.committed() == {("orders", 0): 5}


def test_commits_that_are_committed_late_count_in_their_order() -> None:
    twins = Committing()
    assert twins.commit(LAST, 5) is None
    twins.advance(LOOK_AGAIN_MS - 1)
    assert twins.commit(LAST, 6) is None
    twins.advance(1)  # the first one is looked at again, and waits on

    (answer,) = twins.settle()

    assert code_of(answer) is ErrorCode.none
    assert twins.committed() == {("orders", 0): 6}
    assert twins.world.ctx.clients.groups.taking_in == {}


def test_one_delayed_operation_applies_all_commits_of_a_partition() -> None:
    twins = Committing()
    for offset in range(5):
        assert twins.commit(LAST, offset) is None
    assert len(twins.world.ctx.parked) == 5 + 1

    assert len(twins.settle()) == 5

    assert twins.committed() == {("orders", 0): 4}
    assert len(twins.world.ctx.parked) == 0


def test_an_append_that_commits_nothing_looks_at_no_earlier_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[AwaitCommit] = []
    look = AwaitCommit.try_complete

    def counted(self: AwaitCommit, partition: Any, now_ms: int) -> bool:
        looked.append(self)
        return look(self, partition, now_ms)

    monkeypatch.setattr(AwaitCommit, "try_complete", counted)
    twins = Committing()
    for offset in range(4):
        assert twins.commit(LAST, offset) is None
    assert looked == []

    assert len(twins.settle()) == 4

    assert len(looked) == 2 * 4  # on both sides


def test_a_commit_without_a_sync_is_answered_at_once() -> None:
    twins = Committing(flush=False)
    assert code_of(twins.commit(LAST)) is ErrorCode.none
    assert twins.plain.taken == 1


@pytest.mark.parametrize("version", VERSIONS)
def test_a_damaged_frame_is_served_alike(version: int) -> None:
    twins = Committing()
    frame = twins.frame(OFFSET_COMMIT, version, twins.request(version))
    for size in range(len(frame)):
        assert twins.ask(frame[:size]) in (REFUSED, None)
        twins.settle()
    twins.ask(frame + b"\0")
    for at in range(4, len(frame)):
        for byte in (0, 1, 2, 0x80, 0xFF):
            twins.ask(frame[:at] + bytes((byte,)) + frame[at + 1 :])
            twins.settle()


TEXTS = st.sampled_from(["", "g", "orders", "käse", "t" * 130])


@settings(max_examples=150)
@given(
    version=st.sampled_from(VERSIONS),
    client_id=st.none() | TEXTS,
    group_id=TEXTS,
    member_id=TEXTS,
    instance_id=st.none() | TEXTS,
    generation=st.sampled_from([-1, 0, 1, -2]),
    retention_ms=st.sampled_from([-1, 0, 5]),
    topics=st.lists(
        st.tuples(TEXTS, st.lists(st.tuples(
            st.sampled_from([0, 1, 2, 3, -1]), st.integers(-(2**63), 2**63 - 1),
            st.sampled_from([-1, 0, 7]), st.sampled_from([None, "", "m", "x" * 9]),
        ), max_size=3)),
        max_size=2,
    ),
    repeats=st.integers(1, 2),
)  # fmt: skip
def test_any_commit_is_served_alike(
    version: int, client_id: str | None, group_id: str, member_id: str, instance_id: str | None,
    generation: int, retention_ms: int, topics: list[Any], repeats: int,
) -> None:  # fmt: skip
    twins = Committing()
    named = []
    for topic, parts in topics:
        made = [
            twins.request(version, offset, topic=topic, index=index, epoch=epoch, metadata=text)
            for index, offset, epoch, text in parts
        ]
        first = twins.request(version, topic=topic).topics[0]
        named.append(
            e.OffsetCommitRequestTopic(
                name=first.name,
                topic_id=first.topic_id,
                partitions=tuple(each.topics[0].partitions[0] for each in made),
            )
        )
    request = e.OffsetCommitRequest(
        group_id=group_id, member_id=member_id, generation_id_or_member_epoch=generation,
        group_instance_id=instance_id, retention_time_ms=retention_ms, topics=tuple(named),
    )  # fmt: skip
    for _ in range(repeats):
        twins.send(OFFSET_COMMIT, version, request, client_id)
        twins.settle()


@pytest.mark.parametrize("version", VERSIONS)
def test_only_what_the_codec_writes_for_one_partition_is_known(version: int) -> None:
    """Whatever a frame made `_offset_at` believe."""
    twins = Committing()
    topic = twins.request(version).topics[0]
    two = e.OffsetCommitRequestTopic(
        name=topic.name, topic_id=topic.topic_id, partitions=topic.partitions * 2
    )
    known, *others = (
        memoryview(twins.frame(OFFSET_COMMIT, version, twins.request(version, 0, **changes)))
        for changes in (
            {}, {"topics": (topic, topic)}, {"topics": (two,)}, {"topics": ()}, {"metadata": "m"},
        )
    )  # fmt: skip
    assert plain_offset_commit._known(key_of(known)) is not None
    more = memoryview(bytes(known) + b"\0")  # which the codec ignores
    for frame in (*others, more, known[:-1]):
        assert plain_offset_commit._known(key_of(frame)) is None


def test_known_requests_are_bounded() -> None:
    assert plain_offset_commit._known.cache_info().maxsize is not None
