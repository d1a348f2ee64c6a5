"""What a follower asks a leader for, and which answers count."""

from collections.abc import Callable
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal
from josefine_broker.engine.partition.leader_session import SESSION_EPOCH_MAX, LeaderSession
from josefine_broker.engine.partition.replica_fetch import (
    TRANSITIONS,
    Copy,
    CopyEvent,
    CopyState,
    FetchLimits,
    ReplicaFetcher,
    ReplicaFetchers,
)
from josefine_broker.wire.fetch import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    FetchTopicResponse,
)

TOPIC = UUID(int=1)
A, B = (TOPIC, 0), (TOPIC, 1)
LIMITS = FetchLimits(wait_ms=500, backoff_ms=100)


def fetcher_of(*keys: tuple[UUID, int]) -> ReplicaFetcher:
    fetcher = ReplicaFetcher(2, 1, LIMITS)
    for key in keys:
        fetcher.follow(Copy(key, 0, 0, -1, 0))
    return fetcher


def named(request: FetchRequest) -> dict[int, int]:
    """Partition → fetch offset."""
    return {p.index: p.fetch_offset for topic in request.topics for p in topic.partitions}


def answer(*indexes: int, session_id: int = 9, error: int = 0) -> FetchResponse:
    parts = [FetchPartitionResponse(index, 0, 5, 5, 0) for index in indexes]
    topics = [FetchTopicResponse("", TOPIC, parts)] if parts else []
    return FetchResponse(0, error, session_id, topics)


def opened(*keys: tuple[UUID, int]) -> ReplicaFetcher:
    """With a session, and everything told."""
    fetcher = fetcher_of(*keys)
    number, _ = fetcher.request(0, 7)
    list(fetcher.hear(number, answer(*(key[1] for key in keys)), 0))
    return fetcher


def test_first_request_names_everything_and_does_not_wait() -> None:
    """KIP-227. Before its answer is there no other request could follow it."""
    fetcher = fetcher_of(A, B)

    _, request = fetcher.request(0, 7)

    assert named(request) == {0: 0, 1: 0}
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (0, 0, 0)
    assert (request.replica_id, request.replica_epoch) == (2, 7)
    assert not fetcher.wants_request(0)


def test_later_requests_name_what_changed_here() -> None:
    fetcher = opened(A, B)
    fetcher.moved(B, 5, 0, 0)

    _, request = fetcher.request(0, 7)
    assert named(request) == {1: 5}
    assert (request.session_id, request.session_epoch, request.max_wait_ms) == (9, 1, 500)
    fetcher.moved(A, 3, 0, 0)
    _, request = fetcher.request(0, 7)
    assert (named(request), request.session_epoch) == ({0: 3}, 2)


def test_leader_without_room_for_a_session_is_asked_for_all_each_time_but_waits() -> None:
    fetcher = fetcher_of(A, B)
    number, _ = fetcher.request(0, 7)
    list(fetcher.hear(number, answer(0, 1, session_id=0), 0))

    _, request = fetcher.request(0, 7)

    assert named(request) == {0: 0, 1: 0}
    assert (request.session_epoch, request.max_wait_ms) == (0, 500)


def test_one_request_with_news_may_follow_one_that_waits() -> None:
    fetcher = opened(A)
    fetcher.request(0, 7)
    assert not fetcher.wants_request(0)

    fetcher.follow(Copy(B, 0, 0, -1, 0))

    assert fetcher.wants_request(0)
    fetcher.request(0, 7)
    fetcher.moved(A, 1, 0, 0)
    assert not fetcher.wants_request(0)


def test_answer_older_than_the_last_request_that_named_a_partition_does_not_count() -> None:
    """It was made for another position, epoch, or leader."""
    fetcher = opened(A)
    waiting, _ = fetcher.request(0, 7)
    fetcher.follow(Copy(A, 1, 0, -1, 0))
    news, _ = fetcher.request(0, 7)

    assert list(fetcher.hear(waiting, answer(0), 0)) == []
    assert [copy.key for copy, _ in fetcher.hear(news, answer(0), 0)] == [A]


def test_answer_for_a_partition_that_moved_meanwhile_does_not_count() -> None:
    fetcher = opened(A)
    number, _ = fetcher.request(0, 7)
    fetcher.moved(A, 4, 0, 0)

    assert list(fetcher.hear(number, answer(0), 0)) == []


def test_answer_of_a_lost_connection_does_not_count() -> None:
    fetcher = opened(A)
    number, _ = fetcher.request(0, 7)
    fetcher.disconnected()

    assert list(fetcher.hear(number, answer(0), 0)) == []
    _, request = fetcher.request(0, 7)
    assert (named(request), request.session_id, request.session_epoch) == ({0: 0}, 0, 0)


@pytest.mark.parametrize(
    "code", [ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch]
)
def test_lost_session_is_opened_anew_at_once(code: ErrorCode) -> None:
    fetcher = opened(A, B)
    number, _ = fetcher.request(0, 7)

    assert list(fetcher.hear(number, answer(error=code.value), 0)) == []

    assert fetcher.wants_request(0)
    _, request = fetcher.request(0, 7)
    assert (named(request), request.session_epoch) == ({0: 0, 1: 0}, 0)


def test_refusal_of_the_whole_fetch_backs_off() -> None:
    fetcher = opened(A)
    number, _ = fetcher.request(0, 7)
    list(fetcher.hear(number, answer(error=ErrorCode.stale_broker_epoch.value), 1_000))

    assert not fetcher.wants_request(1_099)
    assert fetcher.wake_at_ms() == 1_100
    assert fetcher.wants_request(1_100)


def test_failed_partition_is_left_out_until_its_time_and_the_others_go_on() -> None:
    fetcher = opened(A, B)
    fetcher.fail(A, 0)

    _, request = fetcher.request(50, 7)
    assert [gone.partitions for gone in request.forgotten] == [(0,)]
    assert not fetcher.wants_request(99)
    assert fetcher.wants_request(100)

    _, request = fetcher.request(100, 7)
    assert named(request) == {0: 0}


def test_partition_that_went_elsewhere_is_forgotten_by_the_session() -> None:
    fetcher = opened(A, B)
    fetcher.forget(A)

    _, request = fetcher.request(0, 7)

    assert [gone.partitions for gone in request.forgotten] == [(0,)]
    assert len(fetcher) == 1


def test_partition_forgotten_and_followed_again_is_named_not_forgotten() -> None:
    fetcher = opened(A)
    fetcher.forget(A)
    fetcher.follow(Copy(A, 3, 8, 2, 0))

    _, request = fetcher.request(0, 7)

    assert (named(request), request.forgotten) == ({0: 8}, ())


def test_session_epochs_wrap_past_zero() -> None:
    fetcher = opened(A)
    fetcher._session.epoch = 2**31 - 1

    fetcher.request(0, 7)

    assert fetcher._session.epoch == 1


def test_partition_is_copied_from_one_leader_only() -> None:
    fetchers = ReplicaFetchers(2, LIMITS)
    fetchers.follow(A, 1, 0, 0, -1, 0)
    fetchers.follow(A, 3, 1, 0, -1, 0)

    assert {key: len(each) for key, each in fetchers.by_leader.items()} == {1: 0, 3: 1}
    fetchers.forget(A)
    assert not len(fetchers.by_leader[3])


def test_throttle_spreads_bytes_over_time() -> None:
    fetchers = ReplicaFetchers(2, FetchLimits(throttle_bytes_per_second=1_000))

    assert fetchers.charge(500, 0) == 500
    assert fetchers.charge(500, 100) == 1_000
    assert fetchers.charge(1_000, 5_000) == 6_000


def test_event_that_no_row_lists_is_fatal() -> None:
    copy = Copy(A, 0, 0, -1, 0)
    copy.on(CopyEvent.NAMED)
    with pytest.raises(Fatal):
        copy.on(CopyEvent.DUE)
    assert {state for state, _ in TRANSITIONS} == set(CopyState)
    assert {event for _, event in TRANSITIONS} == set(CopyEvent)


def test_a_copy_that_moves_and_is_named_again_stays_as_it_was() -> None:
    """`goes_on` leaves both events out."""
    moved = TRANSITIONS[CopyState.ASKED, CopyEvent.MOVED]

    assert TRANSITIONS[moved, CopyEvent.NAMED] is CopyState.ASKED


def test_partition_whose_log_is_not_synced_is_left_out_until_it_is() -> None:
    """Its offset would acknowledge what the disk does not have; the other partitions go on."""
    fetcher = opened(A, B)
    fetcher.written(A)
    fetcher.moved(B, 5, 0, 0)

    number, request = fetcher.request(0, 7)
    assert named(request) == {1: 5}
    assert [part for topic in request.forgotten for part in topic.partitions] == [0]
    assert list(fetcher.hear(number, answer(0), 0)) == []
    fetcher.lost()
    _, request = fetcher.request(0, 7)
    assert named(request) == {1: 5}

    fetcher.moved(A, 4, 0, 0)
    fetcher.lost()
    _, request = fetcher.request(0, 7)
    assert named(request) == {0: 4, 1: 5}


def test_nothing_is_asked_for_while_no_log_is_synced() -> None:
    fetcher = opened(A)
    fetcher.written(A)
    assert not fetcher.wants_request(0)

    fetcher.moved(A, 1, 0, 0)
    _, request = fetcher.request(0, 7)
    assert named(request) == {0: 1}
    assert request.forgotten == ()


def test_failure_while_a_log_is_not_synced_pauses_its_partition() -> None:
    fetcher = opened(A, B)
    fetcher.written(A)
    fetcher.fail(A, 0)
    fetcher.written(A)

    _, request = fetcher.request(0, 7)
    assert named(request) == {}
    _, request = fetcher.request(LIMITS.backoff_ms, 7)
    assert named(request) == {0: 0}


def test_rounds_of_one_partition_are_what_answer_and_next_request_are() -> None:
    """`goes_on` in place of `hear`, `moved` and `request`."""
    usual, short = opened(A, B), opened(A, B)
    for each in (usual, short):
        each.moved(A, 5, 0, 0)
    number, _ = usual.request(0, 7)
    assert short.request(0, 7)[0] == number
    for offset in range(6, 10):
        ((copy, _),) = usual.hear(number, answer(0), 0)
        usual.moved(copy.key, offset, 0, 0)
        expected, request = usual.request(0, 7)

        copy = next(each for each in short if each.key == A)
        assert short.is_alone(copy, number)
        assert short.goes_on(copy, offset) == (expected, request.session_epoch, offset)
        copy.leaders_high_watermark = 5
        assert list(short) == list(usual)
        number = expected


@pytest.mark.parametrize(
    "change",
    [
        lambda fetcher: fetcher.moved(B, 3, 0, 0),
        lambda fetcher: fetcher.pause(B, 100),
        lambda fetcher: fetcher.forget(B),
        lambda fetcher: fetcher.moved(A, 6, 0, 0),
        lambda fetcher: fetcher.leader_lost(0),
    ],
    ids=["another moved", "another paused", "another left", "it moved", "lost"],
)
def test_a_round_of_one_partition_ends_when_anything_else_is_to_be_asked(
    change: Callable[[ReplicaFetcher], None],
) -> None:
    fetcher = opened(A, B)
    fetcher.moved(A, 5, 0, 0)
    number, _ = fetcher.request(0, 7)
    copy, other = fetcher
    assert fetcher.is_alone(copy, number)
    assert not fetcher.is_alone(other, number)
    assert not fetcher.is_alone(copy, number - 1)

    change(fetcher)

    assert not fetcher.is_alone(copy, number)


def test_the_epoch_of_a_session_never_becomes_that_of_a_new_one_again() -> None:
    session = LeaderSession()
    session.on_opened(9)
    session.epoch = SESSION_EPOCH_MAX
    session.advance()
    assert (session.epoch, session.is_full) == (1, False)
