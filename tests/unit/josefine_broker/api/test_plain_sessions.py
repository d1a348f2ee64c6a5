"""Fetches with and without sessions, by the plain path in one broker and by the general path in
its twin: the same bytes, the same waits and the same sessions after each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from josefine_broker.api.plain_fetch import fetch_plain
from josefine_broker.api.table import SERVED
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.context import RequestInfo
from josefine_broker.engine.metadata.changes import AlterAcls
from josefine_broker.engine.partition.transactions import AbortedRange
from josefine_broker.engine.purgatory.purgatory import Encoded, Parked
from josefine_broker.engine.security.authorizer import Authorizer
from josefine_broker.host.net.dispatch import Peer
from josefine_broker.records.plain_fetch import compiled
from josefine_broker.wire.apis import FETCH
from josefine_broker.wire.codec import (
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    parse_request_header,
)
from josefine_broker.wire.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from tests.unit.josefine_broker.api.world import World, batch_of

TOPICS, PARTITIONS = ("a", "b"), 2
PEER = Peer(listener="PLAINTEXT", address="127.0.0.1:5")
WAIT_MS = 500
pytestmark = pytest.mark.skipif(compiled is None, reason="not compiled for this platform")
Place = tuple[str, int]


class Side:
    """One of the twins, with the requests that wait there."""

    def __init__(self, *, is_plain: bool) -> None:
        self.world = World()
        for topic in TOPICS:
            self.world.create(topic, partitions=PARTITIONS)
        self.is_plain = is_plain
        self.taken = self.waited = 0
        """Requests that the plain path has answered at once, and after a wait."""
        self.waiting: list[Parked] = []
        self.header: Any = None

    def ask(self, frame: memoryview) -> bytes | None:
        """The response; None: it waits."""
        self.header = parse_request_header(frame)
        answer: Any = None
        if self.is_plain and compiled is not None:
            answer = fetch_plain(self.world.ctx, compiled, frame, PEER)
            self.taken += isinstance(answer, list)
        if answer is None:
            answer = self._general(frame)
        if isinstance(answer, Parked):
            self.waiting.append(answer)
            return None
        return self._encoded(answer)

    def _general(self, frame: memoryview) -> Any:
        info = RequestInfo(self.header, PEER.principal, PEER.address, PEER.listener)
        request = decode_request(self.header, frame)
        try:
            return SERVED[FETCH].handle(self.world.ctx, info, request)
        except KafkaError as error:
            return SERVED[FETCH].refuse(request, error)

    def late_answers(self) -> bytes | None:
        """Those of requests that have waited and are done."""
        done = [each for each in self.waiting if each.done]
        self.waiting = [each for each in self.waiting if not each.done]
        self.waited += sum(isinstance(each.response, Encoded) for each in done)
        return b"".join(self._encoded(each.response) for each in done) or None

    def _encoded(self, answer: Any) -> bytes:
        if isinstance(answer, list):
            return b"".join(answer)
        if isinstance(answer, Encoded):
            return b"".join(answer.buffers)
        return b"".join(encode_response(FETCH, self.header.api_version, 7, answer))

    def state(self) -> Any:
        """What must not differ: sessions in their order, traffic, waits."""
        ctx = self.world.ctx
        sessions = [
            (each.session_id, each.epoch, each.used_ms, list(each.partitions.items()),
             each.waiting is not None)
            for each in ctx.clients.sessions._sessions.values()
        ]  # fmt: skip
        traffic = [(name, each.bytes_out) for name, each in ctx.hosted.traffic.topics()]
        waits = sorted((each.deadline_ms, sorted(each.partitions)) for each in ctx.parked.waiting)
        return sessions, traffic, waits

    def partition(self, place: Place) -> Any:
        return self.world.ctx.hosted.partitions[place]


class Twins:
    """Both sides, asked alike."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.sides = Side(is_plain=True), Side(is_plain=False)
        self.session = (0, 0)
        """Session id and the epoch of its next request."""

    @property
    def plain(self) -> Side:
        return self.sides[0]

    def fetch(
        self, wanted: dict[Place, tuple[int, int]], forget: tuple[Place, ...] = (), **fields: Any
    ) -> Any:
        """The answer of both; None: both wait. `wanted` has offset and largest size of each."""
        named: dict[str, list[FetchPartition]] = {}
        for (topic, index), (offset, bytes_max) in wanted.items():
            part = FetchPartition(index, -1, offset, -1, -1, bytes_max)  # type: ignore[arg-type]
            named.setdefault(topic, []).append(part)
        topics = tuple(FetchTopic(*self._names(each), tuple(named[each])) for each in named)
        gone = tuple(ForgottenTopic(*self._names(each), (index,)) for each, index in forget)
        request = FetchRequest(-1, WAIT_MS, 1, 1 << 20, 0, *self.session, topics, gone)
        request = request._replace(**fields)
        frame = b"".join(encode_request(FETCH, self.version, 7, "client", request))[4:]
        # The end of an earlier wait counts for the session before this request does.
        found = [side.ask(memoryview(frame)) for side in self.sides]
        self.late()
        return self._same(found)

    def _names(self, topic: str) -> tuple[str, Any]:
        topic_id = self.plain.world.ctx.image.topics[topic].topic_id
        return ("", topic_id) if self.version >= 13 else (topic, None)

    def late(self) -> Any:
        """The answer of a request that has waited, if both have one."""
        return self._same([side.late_answers() for side in self.sides])

    def _same(self, found: list[bytes | None]) -> Any:
        assert found[0] == found[1]
        assert self.plain.state() == self.sides[1].state()
        if found[0] is None:
            return None
        size = int.from_bytes(found[0][:4], "big")  # several waits may have ended
        return decode_response(FETCH, self.version, memoryview(found[0])[4 : 4 + size])[1]

    def both(self, change: Callable[[Side], object]) -> None:
        for side in self.sides:
            change(side)

    def produce(self, place: Place, size: int) -> None:
        batch = batch_of(b"v" * size)
        topic, partition = place
        self.both(lambda side: side.world.produce(batch, topic=topic, partition=partition))

    def open(self, **fields: Any) -> None:
        """A session with every partition, from the start."""
        self.session = (0, 0)
        all_of_them = {(topic, n): (0, 1000) for topic in TOPICS for n in range(PARTITIONS)}
        answer = self.fetch(all_of_them, max_wait_ms=0, **fields)
        self.session = (answer.session_id, 1)

    def next(self, wanted: dict[Place, tuple[int, int]], **fields: Any) -> Any:
        """The next request of the session."""
        answer = self.fetch(wanted, **fields)
        self.session = (self.session[0], self.session[1] + 1)
        return answer


def places(answer: Any) -> list[tuple[Any, int, int]]:
    """Topic, index and bytes of records, in the order of the answer."""
    return [
        (topic.topic_id or topic.name, part.index, sum(map(len, part.records)))
        for topic in answer.topics
        for part in topic.partitions
    ]


@pytest.mark.parametrize("version", [7, 11, 12, 13, 18])
def test_an_incremental_fetch_is_answered_with_the_partitions_that_have_news(version: int) -> None:
    twins = Twins(version)
    twins.open()
    assert places(twins.next({}, max_wait_ms=0)) == []
    twins.produce(("b", 1), 10)

    answer = twins.next({}, max_wait_ms=0)

    assert [index for _, index, size in places(answer) if size] == [1]
    assert len(places(twins.next({("b", 1): (1, 1000)}, max_wait_ms=0))) == 0
    assert twins.plain.taken == 3


@pytest.mark.parametrize("version", [4, 7, 12, 13, 18])
def test_a_fetch_that_waits_is_answered_when_a_record_comes_or_its_time_is_over(
    version: int,
) -> None:
    twins = Twins(version)
    sessionless = {"session_id": 0, "session_epoch": -1}
    both = {("a", 0): (0, 1000), ("b", 0): (0, 1000)}
    assert twins.fetch(both, **sessionless) is None
    twins.produce(("b", 0), 10)

    answer = twins.late()

    assert [size > 0 for _, _, size in places(answer)] == [False, True]
    assert twins.fetch({("a", 0): (0, 1000)}, **sessionless) is None
    twins.both(lambda side: side.world.advance(WAIT_MS))
    assert [size for _, _, size in places(twins.late())] == [0]
    assert twins.plain.waited == 2


def test_a_session_that_waits_answers_the_record_that_wakes_it() -> None:
    twins = Twins(17)
    twins.open()
    for n in range(3):
        assert twins.next({("a", 1): (n, 1000)}) is None

        twins.produce(("a", 1), 10)

        assert [index for _, index, size in places(twins.late()) if size] == [1]
    assert (twins.plain.taken, twins.plain.waited) == (0, 3)


def test_the_next_request_of_a_session_ends_the_wait_of_the_last_one() -> None:
    twins = Twins(17)
    twins.open()
    assert twins.next({}) is None

    assert twins.next({}, max_wait_ms=0) is not None

    assert twins.plain.world.ctx.clients.sessions._sessions[twins.session[0]].epoch == 3


@pytest.mark.parametrize("version", [7, 12, 17])
def test_partitions_that_a_consumer_has_buffered_leave_its_session_and_come_back(
    version: int,
) -> None:
    twins = Twins(version)
    twins.produce(("a", 0), 10)
    twins.produce(("b", 1), 10)
    twins.open()
    asked = {("b", 1): (0, 1000)}
    for forget in ((("a", 0),), (("a", 0), ("a", 1)), (("a", 0), ("b", 0), ("b", 0))):
        answer = twins.next(asked, forget=forget, max_wait_ms=0)

        assert [size > 0 for _, _, size in places(answer)] == [True]
    answer = twins.next({("a", 0): (1, 1000)}, forget=(("b", 1),), max_wait_ms=0)
    assert [index for _, index, _ in places(answer)] == [0]
    assert twins.plain.taken == 4


@pytest.mark.parametrize("version", [12, 17])
def test_a_session_whose_last_partition_is_forgotten_ends_by_the_general_path(version: int) -> None:
    twins = Twins(version)
    twins.open()
    everything = tuple((topic, n) for topic in TOPICS for n in range(PARTITIONS))

    answer = twins.next({("a", 0): (0, 1000)}, forget=everything, max_wait_ms=0)

    assert (answer.session_id, len(twins.plain.world.ctx.clients.sessions)) == (0, 0)
    assert twins.plain.taken == 0


def test_a_forgotten_topic_without_an_id_is_refused_and_leaves_the_session_as_it_is() -> None:
    twins = Twins(17)
    twins.open()
    zero = ForgottenTopic(*twins._names("a"), (0,)), ForgottenTopic("", None, (0,))

    answer = twins.fetch({}, forgotten=zero, max_wait_ms=0)

    assert answer.error_code == ErrorCode.fetch_session_topic_id_error
    assert twins.plain.taken == 0


def stopped_leading(side: Side) -> None:
    entry = side.world.ctx.image.partition("a", 0)
    assert entry is not None
    side.partition(("a", 0)).partition.follow(replace(entry, leader=2), 0)


def has_an_open_transaction(side: Side) -> None:
    side.partition(("a", 0)).partition.producers.transactions.begin(7, 0, 0)


def had_an_aborted_transaction(side: Side) -> None:
    transactions = side.partition(("a", 0)).partition.producers.transactions
    transactions._aborted.append(AbortedRange(7, 0, 1))  # type: ignore[arg-type]


def has_access_control(side: Side) -> None:
    side.world.ctx.clients.authorizer = Authorizer(frozenset())
    side.world.propose(AlterAcls())


def was_deleted(side: Side) -> None:
    side.world.delete("b")


CHANGES = [
    stopped_leading, has_an_open_transaction, had_an_aborted_transaction, has_access_control,
    was_deleted,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_while_a_fetch_waits_is_answered_by_the_general_path(
    change: Callable[[Side], None],
) -> None:
    twins = Twins(17)
    twins.open()
    assert twins.next({}, isolation_level=1) is None
    twins.both(change)
    twins.both(lambda side: side.world.produce(batch_of(b"v"), topic="a", partition=0))
    twins.both(lambda side: side.world.advance(WAIT_MS))

    assert twins.late() is not None

    assert twins.plain.waited == 0


@pytest.mark.parametrize("change", CHANGES)
def test_what_is_not_plain_in_a_session_is_answered_by_the_general_path(
    change: Callable[[Side], None],
) -> None:
    twins = Twins(17)
    twins.produce(("a", 0), 10)
    twins.open()
    twins.both(change)

    assert twins.next({("a", 1): (0, 1000)}, isolation_level=1, max_wait_ms=0) is not None

    assert twins.plain.taken == 0


@pytest.mark.parametrize(
    "fields",
    [{"session_epoch": 2}, {"session_epoch": 0}, {"session_epoch": -1}, {"session_id": 5}],
)
def test_another_epoch_or_session_is_refused_by_the_general_path(fields: dict[str, int]) -> None:
    twins = Twins(17)
    twins.open()

    answer = twins.fetch({}, max_wait_ms=0, **fields)

    assert answer is not None
    assert twins.plain.taken == 0


def test_a_wait_is_over_after_as_many_new_bytes_as_it_asks_for() -> None:
    twins = Twins(17)
    twins.produce(("a", 0), 10)
    twins.open()
    size = len(batch_of(b"v" * 10))
    assert twins.next({("a", 0): (1, 1000)}, min_bytes=size + 1) is None
    twins.produce(("a", 0), 10)

    assert twins.late() is None

    twins.produce(("a", 0), 10)
    assert sum(size for _, _, size in places(twins.late())) == 2 * size


def test_a_session_by_name_refuses_ids_and_one_by_id_names() -> None:
    for opened, used in ((12, 17), (17, 12)):
        twins = Twins(opened)
        twins.open()
        twins.version = used

        answer = twins.fetch({("a", 0): (0, 1000)}, max_wait_ms=0)

        assert answer.error_code == ErrorCode.fetch_session_topic_id_error


@pytest.mark.parametrize("version", [12, 17])
def test_a_session_without_partitions_ends_at_once(version: int) -> None:
    twins = Twins(version)
    opened = twins.fetch({}, max_wait_ms=0)
    twins.session = (opened.session_id, 1)

    answer = twins.next({})

    assert (answer.error_code, answer.session_id) == (0, 0)
    assert len(twins.plain.world.ctx.clients.sessions) == 0


def test_the_session_that_was_used_last_is_evicted_last() -> None:
    twins = Twins(17)
    twins.open()
    first = twins.session
    twins.open()
    twins.session = first

    assert twins.next({}, max_wait_ms=0) is not None

    assert list(twins.plain.world.ctx.clients.sessions._sessions)[-1] == first[0]


@pytest.mark.parametrize("version", [12, 17])
def test_odd_topics_of_a_request_without_a_session_are_left_to_the_general_path(
    version: int,
) -> None:
    twins = Twins(version)
    twins.produce(("a", 0), 10)
    parts = [FetchPartition(0, -1, offset, -1, -1, 1000) for offset in (1, 0)]  # type: ignore[arg-type]
    name, topic_id = twins._names("a")
    zero = FetchTopic("", None, (parts[0],))
    for topics in [(FetchTopic(name, topic_id, tuple(parts)),)] + [(zero,)] * (version >= 13):
        fields = {"session_id": 0, "session_epoch": -1, "topics": topics, "max_wait_ms": 0}

        assert twins.fetch({}, **fields) is not None

    assert twins.plain.taken == 0


def test_the_last_stable_offset_is_sent_to_readers_that_do_not_wait_for_it() -> None:
    twins = Twins(17)
    twins.produce(("a", 0), 10)
    twins.open()
    twins.both(has_an_open_transaction)
    twins.produce(("a", 0), 10)
    for session in ({}, {"session_id": 0, "session_epoch": -1}):
        answer = twins.fetch({("a", 0): (1, 1000)}, max_wait_ms=0, **session)

        assert answer.topics[0].partitions[0].last_stable_offset == 0
    assert twins.plain.taken == 2


def random_fetch(twins: Twins, rng: Random) -> None:
    everything = [(topic, n) for topic in TOPICS for n in range(PARTITIONS)]
    wanted = {
        place: (max(0, rng.randint(-2, 0) + twins.plain.partition(place).log.log_end_offset),
                rng.choice([1, 100, 1000]))
        for place in rng.sample(everything, rng.randint(0, 4))
    }  # fmt: skip
    fields = {
        "max_wait_ms": rng.choice([0, WAIT_MS]), "min_bytes": rng.choice([0, 1, 1, 1, 200]),
        "max_bytes": rng.choice([1, 150, 1 << 20]), "isolation_level": rng.randint(0, 1),
    }  # fmt: skip
    twins.late()
    if rng.random() < 0.2 and wanted:
        twins.fetch(wanted, session_id=0, session_epoch=-1, **fields)
    elif rng.random() < 0.1:
        twins.open()
    else:
        forget = rng.sample(everything, rng.choice([0, 0, 0, 0, 0, 1, 1, 2, 3, 4]))
        twins.next(wanted, forget=tuple(forget), **fields)


def one_step(twins: Twins, rng: Random) -> None:
    place, draw = (rng.choice(TOPICS), rng.randrange(PARTITIONS)), rng.random()
    if draw < 0.4:
        twins.produce(place, rng.choice([1, 30, 300]))
    elif draw < 0.45:
        cut = rng.randint(0, twins.plain.partition(place).log.log_end_offset)
        twins.both(lambda side: side.partition(place).log.delete_before(cut))
    elif draw < 0.55:
        elapsed_ms = rng.choice([1, WAIT_MS])
        twins.both(lambda side: side.world.advance(elapsed_ms))
    else:
        random_fetch(twins, rng)
    twins.late()


@pytest.mark.parametrize("seed", range(12))
def test_random_fetches_are_answered_alike_on_both_paths(seed: int) -> None:
    """A broken rule of the plain path shows here: order, limits, news, epochs, waits."""
    rng = Random(seed)
    twins = Twins(rng.choice([7, 11, 12, 13, 17, 18]))
    twins.open()
    for _ in range(150):
        one_step(twins, rng)
    assert twins.plain.taken > 10
