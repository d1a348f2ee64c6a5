"""Share fetches by the plain path in one broker and by the general path in its twin: the same
bytes, the same waits, sessions and share partitions after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from josefine_broker.api.plain_share_fetch import (
    CLIENT_ID_MAX,
    GRAIN_MS,
    fetch_shares_plain,
)
from josefine_broker.api.share_fetch import WaitingShareFetch
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.coordinators.share_partitions_host import drop
from josefine_broker.engine.groups.share.values import ShareKey
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.wire.apis import SHARE_FETCH
from josefine_broker.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.entities import share_fetch as e
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.share_members import ACCEPT, GROUP, RELEASE, Sharer
from tests.unit.josefine_broker.api.world import World, batch_of

PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")
WAIT_MS = 50 * GRAIN_MS
LOCK_MS = 30_000


class Side:
    """One of the twins, with the requests that wait there."""

    def __init__(self, *, is_plain: bool) -> None:
        self.world = World()
        self.world.create("orders", partitions=2)
        self.is_plain = is_plain
        self.members = {name: Sharer(self.world, name).join() for name in ("a", "b")}
        for member in self.members.values():
            member.beat()
        self.world.advance(-self.world.clock.monotonic_ms() % GRAIN_MS)
        self.taken = self.waited = 0
        """Requests that the plain path has taken, and those it has answered."""
        self.waiting: list[tuple[Any, Parked]] = []

    def ask(self, frame: memoryview) -> bytes | None:
        """The response; None: it waits."""
        answer: Any = fetch_shares_plain(self.world.ctx, frame, PEER) if self.is_plain else None
        header = parse_request_header(frame)
        if answer is None:
            info = RequestInfo(header, PEER.principal, PEER.address, PEER.listener)
            request = decode_request(header, frame)
            try:
                answer = SERVED[SHARE_FETCH].handle(self.world.ctx, info, request)
            except KafkaError as error:
                answer = SERVED[SHARE_FETCH].refuse(request, error)
        else:
            self.taken += 1
            assert answer.header == header
        if isinstance(answer, Parked):
            self.waiting.append((header, answer))
            return None
        return encoded(header, answer)

    def late_answers(self) -> list[bytes]:
        """Those of requests that have waited and are done."""
        done = [each for each in self.waiting if each[1].done]
        self.waiting = [each for each in self.waiting if not each[1].done]
        self.waited += sum(isinstance(each.response, Encoded) for _, each in done)
        return [encoded(header, each.response) for header, each in done]

    def state(self) -> Any:
        """What must not differ: sessions, share partitions, waits."""
        shares, parked = self.world.ctx.clients.shares, self.world.ctx.parked
        sessions = [
            (key, each.epoch, each.used_ms, list(each.parts))
            for key, each in shares.sessions._sessions.items()
        ]
        led = [
            (key, each.partition and (list(each.partition.spans), each.partition.end_offset))
            for key, each in shares.led.items()
        ]
        waits = sorted(
            (each.deadline_ms, sorted(each.partitions), each.group_id or "")
            for each in parked.waiting
        )
        return sessions, led, waits


def encoded(header: Any, answer: Any) -> bytes:
    if isinstance(answer, Encoded):
        return b"".join(answer.buffers)
    return b"".join(encode_response(SHARE_FETCH, header.api_version, header.correlation_id, answer))


class Twins:
    """Both sides, asked alike."""

    def __init__(self, version: int = 2, client: str | None = "client") -> None:
        self.version, self.client = version, client
        self.sides = Side(is_plain=True), Side(is_plain=False)
        self.sessions = dict.fromkeys(self.plain.members, 0)
        self._requests = 0

    @property
    def plain(self) -> Side:
        return self.sides[0]

    def fetch(
        self, name: str = "a", acks: tuple[tuple[int, int, int], ...] = (), **changes: Any
    ) -> list[e.ShareFetchResponse]:
        """The answers that both have now, to this request and to earlier ones."""
        epoch = changes.pop("epoch", self.sessions[name])
        parts = list(self.plain.members[name].parts)
        batches = tuple(
            e.AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(kind,))
            for first, last, kind in acks
        )
        named = parts if epoch == 0 else parts[:1] if acks else []
        topics = tuple(
            e.FetchTopic(
                topic_id=topic_id,
                partitions=(
                    e.FetchPartition(partition_index=index, acknowledgement_batches=batches),
                ),
            )
            for topic_id, index in named
        )
        fields = {
            "max_wait_ms": WAIT_MS, "min_bytes": 1, "max_records": 4, "batch_size": 4,
            "topics": topics, "forgotten_topics_data": (), "share_session_epoch": epoch,
        }  # fmt: skip
        request = e.ShareFetchRequest(group_id=GROUP, member_id=name, **(fields | changes))
        self._requests += 1
        number = self._requests
        frame = encode_request(SHARE_FETCH, self.version, number, self.client, request)
        found = self.ask(b"".join(frame)[4:])
        self.sessions[name] = 0 if epoch == -1 else epoch + 1
        if any(answer.error_code for answer in found):
            self.sessions[name] = 0
        return found

    def ask(self, frame: bytes) -> list[e.ShareFetchResponse]:
        at_once = [side.ask(memoryview(frame)) for side in self.sides]
        assert at_once[0] == at_once[1]
        return [decoded(self.version, each) for each in at_once[:1] if each] + self.late()

    def late(self) -> list[e.ShareFetchResponse]:
        """The answers of requests that have waited."""
        found = [side.late_answers() for side in self.sides]
        assert found[0] == found[1]
        assert self.plain.state() == self.sides[1].state()
        return [decoded(self.version, each) for each in found[0]]

    def both(self, change: Callable[[Side], object]) -> None:
        for side in self.sides:
            change(side)

    def advance(self, ms: int) -> None:
        self.both(lambda side: side.world.advance(ms))

    def produce(self, partition: int) -> None:
        self.both(lambda side: side.world.produce(batch_of(b"v"), partition=partition))

    def spans(self, name: str) -> list[tuple[int, int]]:
        """The records in flight of the member's first partition."""
        part = next(iter(self.plain.members[name].parts))
        led = self.plain.world.ctx.clients.shares.led.get(ShareKey(GROUP, *part))
        return [] if led is None else [(each.first, each.last) for each in led.partition.spans]

    def open(self) -> None:
        """A session with everything, for both members."""
        for name in self.sessions:
            assert self.fetch(name, max_wait_ms=0)[0].responses == ()


def decoded(version: int, frame: bytes) -> e.ShareFetchResponse:
    answer: e.ShareFetchResponse = decode_response(SHARE_FETCH, version, memoryview(frame)[4:])[1]
    return answer


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("client", ["client", None, ""])
def test_an_idle_member_waits_and_hears_that_there_is_nothing(
    version: int, client: str | None
) -> None:
    twins = Twins(version, client)
    twins.open()
    for _ in range(3):
        assert twins.fetch() == []
        twins.advance(WAIT_MS - 1)
        assert twins.late() == []
        twins.advance(1)
        (answer,) = twins.late()
        assert (answer.error_code, answer.responses) == (0, ())
    assert (twins.plain.taken, twins.plain.waited) == (3, 3)


@pytest.mark.parametrize("size", [CLIENT_ID_MAX, CLIENT_ID_MAX + 1])
def test_known_requests_do_not_keep_long_client_ids_in_memory(size: int) -> None:
    twins = Twins(client="c" * size)
    twins.open()
    assert twins.fetch() == []
    assert twins.plain.taken == (size <= CLIENT_ID_MAX)


def test_a_record_ends_the_wait_with_the_general_answer() -> None:
    twins = Twins()
    twins.open()
    member = twins.plain.members["a"]
    assert twins.fetch() == []

    twins.produce(next(iter(member.parts))[1])

    (answer,) = twins.late()
    assert [len(topic.partitions[0].acquired_records) for topic in answer.responses] == [1]
    assert (twins.plain.taken, twins.plain.waited) == (1, 0)


def test_what_names_partitions_or_has_the_wrong_epoch_takes_the_general_path() -> None:
    twins = Twins()
    twins.open()
    twins.fetch(max_wait_ms=0)
    twins.fetch(max_records=0)
    twins.fetch(epoch=7)
    twins.fetch(epoch=0)
    twins.fetch(acks=((0, 0, ACCEPT),))
    twins.fetch(is_renew_ack=True)
    twins.fetch(epoch=0, topics=())
    twins.fetch()  # of a session without partitions
    twins.fetch(epoch=-1)
    twins.fetch(epoch=3)
    assert twins.plain.taken == 0


def test_records_in_flight_keep_the_fetches_of_all_members_from_the_plain_path() -> None:
    twins = Twins()
    twins.open()
    part = next(iter(twins.plain.members["a"].parts))[1]
    twins.produce(part)
    assert len(twins.fetch()[0].responses) == 1
    assert twins.fetch() == []
    twins.advance(LOCK_MS)
    assert twins.late()
    assert twins.plain.taken == 0


def test_a_session_that_forgets_a_partition_waits_for_the_others_alone() -> None:
    twins = Twins()
    topic_id = twins.plain.world.ctx.image.topics["orders"].topic_id
    both = e.FetchTopic(
        topic_id=topic_id,
        partitions=tuple(
            e.FetchPartition(partition_index=n, acknowledgement_batches=()) for n in range(2)
        ),
    )
    gone = e.ForgottenTopic(topic_id=topic_id, partitions=(0,))
    twins.fetch(topics=(both,), max_wait_ms=0)
    for forgotten in ((), (gone,)):
        twins.fetch(forgotten_topics_data=forgotten, max_wait_ms=0)
        assert twins.fetch() == []
        twins.advance(WAIT_MS)
        assert len(twins.late()) == 1
    assert twins.plain.taken == 2


def test_a_share_partition_whose_use_ended_is_looked_up_again() -> None:
    twins = Twins()
    twins.open()
    twins.fetch()
    twins.advance(WAIT_MS)
    twins.late()

    twins.both(fenced)
    twins.fetch()
    assert twins.plain.taken == 1
    twins.advance(WAIT_MS)
    twins.late()

    assert twins.fetch() == []
    assert twins.plain.taken == 2


def fenced(side: Side) -> None:
    """Its state was written by another leader, or its offsets were altered."""
    for led in list(side.world.ctx.clients.shares.led.values()):
        drop(side.world.ctx, led, KafkaError(ErrorCode.not_leader_or_follower))


def stopped_leading(side: Side) -> None:
    for index in range(2):
        entry = side.world.ctx.image.partition("orders", index)
        assert entry is not None
        partition = side.world.ctx.hosted.partitions["orders", index].partition
        partition.follow(replace(entry, leader=2), 0)


def has_access_control(side: Side) -> None:
    side.world.ctx.clients.authorizer = Authorizer(frozenset())
    side.world.propose(AlterAcls())


def was_deleted(side: Side) -> None:
    side.world.delete("orders")


def was_emptied(side: Side) -> None:
    """Records were deleted that the group has not read."""
    for index in range(2):
        side.world.produce(batch_of(b"v"), partition=index)
        hosted = side.world.ctx.hosted.partitions["orders", index]
        hosted.log.delete_before(hosted.log.log_end_offset)


def lost_its_session(side: Side) -> None:
    for name in side.members:
        side.world.ctx.clients.shares.sessions.close(GROUP, name)


CHANGES = [stopped_leading, has_access_control, was_deleted, lost_its_session]


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_a_fetch_waits_has_the_general_answer(
    change: Callable[[Side], None],
) -> None:
    twins = Twins()
    twins.open()
    assert twins.fetch() == []
    twins.both(change)
    twins.advance(WAIT_MS)

    assert len(twins.late()) == 1

    assert twins.plain.waited == 0


@pytest.mark.parametrize("change", [*CHANGES, was_emptied])
def test_what_is_not_plain_any_more_takes_the_general_path(change: Callable[[Side], None]) -> None:
    twins = Twins()
    twins.open()
    twins.both(change)

    twins.fetch()
    twins.advance(WAIT_MS)
    twins.late()

    assert twins.plain.taken == 0


@pytest.mark.parametrize("seed", range(6))
def test_a_random_life_is_the_same_on_both_paths(seed: int) -> None:
    rng, twins = Random(seed), Twins(version=1 + seed % 2)
    twins.open()
    for _ in range(120):
        name = rng.choice(list(twins.sessions))
        step = rng.randrange(10)
        if step < 4:
            twins.fetch(name, max_wait_ms=rng.choice((0, WAIT_MS)))
        elif step == 4:
            twins.produce(rng.randrange(2))
        elif step < 7:
            # What it may have, and what it cannot have.
            if twins.sessions[name] and (spans := twins.spans(name)):
                first, last = rng.choice(spans)
                ack = (first, last + rng.randrange(8) // 7, rng.choice((ACCEPT, ACCEPT, RELEASE)))
                twins.fetch(name, acks=(ack,))
        elif step == 7:
            twins.fetch(name, epoch=rng.choice((-1, 0, 5)))
        else:
            twins.advance(GRAIN_MS * rng.choice((1, 20, 4_000)))
        twins.late()
    twins.advance(LOCK_MS)
    twins.late()
    assert twins.plain.taken


def test_a_damaged_frame_is_left_to_the_route() -> None:
    twins = Twins()
    twins.open()
    request = e.ShareFetchRequest(
        group_id=GROUP, member_id="a", share_session_epoch=1, max_wait_ms=WAIT_MS, min_bytes=1,
        max_records=4, batch_size=4, topics=(), forgotten_topics_data=(),
    )  # fmt: skip
    frame = b"".join(encode_request(SHARE_FETCH, 2, 1, "client", request))[4:]
    before = twins.plain.state()
    ctx = twins.plain.world.ctx
    for size in range(len(frame)):
        assert fetch_shares_plain(ctx, memoryview(frame[:size]), PEER) is None
    assert fetch_shares_plain(ctx, memoryview(frame + b"\0"), PEER) is None
    assert twins.plain.state() == before
    for at in range(len(frame)):
        for byte in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(frame)
            changed[at] = byte
            found = fetch_shares_plain(ctx, memoryview(changed), PEER)
            if found is not None:
                twins.plain.world.ctx.clients.shares.sessions._sessions[GROUP, "a"].epoch = 1


def test_a_long_wait_ends_at_a_full_grain_and_a_short_one_when_it_says() -> None:
    twins = Twins()
    twins.open()
    side = twins.plain
    side.world.advance(3)
    now_ms = side.world.clock.monotonic_ms()
    found = []
    for epoch, wait_ms in ((1, WAIT_MS + 1), (2, WAIT_MS - 1)):
        request = e.ShareFetchRequest(
            group_id=GROUP, member_id="a", share_session_epoch=epoch, max_wait_ms=wait_ms,
            min_bytes=1, max_records=4, batch_size=4, topics=(), forgotten_topics_data=(),
        )  # fmt: skip
        frame = b"".join(encode_request(SHARE_FETCH, 2, 1, "client", request))[4:]
        waiting = fetch_shares_plain(side.world.ctx, memoryview(frame), PEER)
        assert waiting is not None
        found.append(waiting.deadline_ms)
    assert found[0] % GRAIN_MS == 0
    assert 0 <= found[0] - (now_ms + WAIT_MS + 1) < GRAIN_MS
    assert found[1] == now_ms + WAIT_MS - 1


def test_a_wait_that_is_over_leaves_nothing_to_the_collector() -> None:
    twins = Twins()
    for _ in range(2):  # the first one is not plain
        twins.fetch()
        twins.advance(WAIT_MS)
        twins.late()
    with uncollected():
        twins.fetch()
        assert alive(WaitingShareFetch)
        twins.advance(WAIT_MS)
        twins.late()

        assert not alive(WaitingShareFetch)
