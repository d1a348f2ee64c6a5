"""Fetch sessions (KIP-227): their epochs, bounds and order."""

from random import Random
from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.partition.fetch_session import (
    EPOCH_MAX,
    EVICTION_MS,
    Fetched,
    FetchPlan,
    FetchSessions,
    select_answers,
)
from josefine_broker.wire.fetch import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)

RNG = Random(3)


def request(
    session_id: int,
    epoch: int,
    *indexes: int,
    forget: tuple[int, ...] = (),
    topic_id: UUID | None = None,
    offset: int = 0,
    replica_id: int = -1,
) -> FetchRequest:
    parts = tuple(FetchPartition(index, -1, offset, -1, -1, 100) for index in indexes)
    topics = (FetchTopic("t", topic_id, parts),) if parts else ()
    forgotten = (ForgottenTopic("t", topic_id, forget),) if forget else ()
    return FetchRequest(replica_id, 0, 1, 1000, 0, session_id, epoch, topics, forgotten)


def answers(plan: FetchPlan, high_watermark: int = 0, records: tuple[int, ...] = ()) -> list[int]:
    """Which partitions are told when all have this high watermark and some have records."""
    results = [
        Fetched(
            each.name,
            each.topic_id,
            FetchPartitionResponse(
                each.partition.index,
                0,
                high_watermark,
                records=(b"x",) if each.partition.index in records else (),
            ),
        )
        for each in plan.wanted
    ]
    return [each.partition.index for each in select_answers(plan, results)]


def indexes(plan: FetchPlan) -> list[int]:
    return [each.partition.index for each in plan.wanted]


def code_of(sessions: FetchSessions, asked: FetchRequest) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        sessions.begin(asked, 0, RNG)
    return raised.value.code


def opened(*partitions: int, topic_id: UUID | None = None) -> tuple[FetchSessions, int]:
    sessions = FetchSessions(10)
    plan = sessions.begin(request(0, 0, *partitions, topic_id=topic_id), 0, RNG)
    assert plan.session is not None
    answers(plan)
    return sessions, plan.session.session_id


def test_full_fetch_opens_a_session_and_tells_everything() -> None:
    sessions = FetchSessions(10)

    plan = sessions.begin(request(0, 0, 0, 1), 0, RNG)

    assert plan.session is not None
    assert plan.session.session_id != 0
    assert answers(plan) == [0, 1]


def test_sessionless_fetch_opens_none() -> None:
    sessions = FetchSessions(10)

    plan = sessions.begin(request(0, -1, 0), 0, RNG)

    assert plan.session is None
    assert len(sessions) == 0


def test_incremental_fetch_tells_only_what_changed() -> None:
    sessions, session_id = opened(0, 1, 2)

    plan = sessions.begin(request(session_id, 1), 0, RNG)
    assert answers(plan, records=(1,)) == [1]
    plan = sessions.begin(request(session_id, 2), 0, RNG)
    assert answers(plan) == []
    plan = sessions.begin(request(session_id, 3), 0, RNG)
    assert sorted(answers(plan, high_watermark=5)) == [0, 1, 2]


def test_what_a_follower_was_told_of_a_partition_it_names_is_told_again() -> None:
    """It passed over the answer that told it, for its log had changed meanwhile. Once found by
    cluster.run 2013 --groups --consumer_groups --no-transactions."""
    sessions, session_id = opened(0, 1)
    assert answers(sessions.begin(request(session_id, 1), 0, RNG), high_watermark=5) == [0, 1]

    plan = sessions.begin(request(session_id, 2, 1, replica_id=3), 0, RNG)
    assert answers(plan, high_watermark=5) == [1]
    plan = sessions.begin(request(session_id, 3, 1), 0, RNG)
    assert answers(plan, high_watermark=5) == [], "a consumer, which has one request in flight"


def test_moved_log_start_is_told() -> None:
    sessions, session_id = opened(0)
    plan = sessions.begin(request(session_id, 1), 0, RNG)
    moved = Fetched("t", None, FetchPartitionResponse(0, 0, 0, log_start_offset=4))

    assert list(select_answers(plan, [moved])) == [moved]
    assert list(select_answers(plan, [moved])) == []


def test_partition_that_sent_records_goes_to_the_end_of_the_line() -> None:
    sessions, session_id = opened(0, 1, 2)
    answers(sessions.begin(request(session_id, 1), 0, RNG), records=(0,))

    plan = sessions.begin(request(session_id, 2), 0, RNG)

    assert indexes(plan) == [1, 2, 0]


def test_partitions_are_added_changed_and_forgotten() -> None:
    sessions, session_id = opened(0, 1)

    plan = sessions.begin(request(session_id, 1, 1, 2, forget=(0,), offset=9), 0, RNG)

    assert indexes(plan) == [1, 2]
    assert [each.partition.fetch_offset for each in plan.wanted] == [9, 9]


def test_error_is_told_each_time_and_what_follows_it() -> None:
    sessions, session_id = opened(0)

    for epoch, code in ((1, 6), (2, 6), (3, 0)):
        plan = sessions.begin(request(session_id, epoch), 0, RNG)
        failed = Fetched("t", None, FetchPartitionResponse(0, code, 0 if code == 0 else -1))
        assert list(select_answers(plan, [failed])) == [failed]


def test_unknown_session_and_wrong_epoch_have_their_errors() -> None:
    sessions, session_id = opened(0)

    assert code_of(sessions, request(session_id + 1, 1)) is ErrorCode.fetch_session_id_not_found
    assert code_of(sessions, request(session_id, 2)) is ErrorCode.invalid_fetch_session_epoch
    assert code_of(sessions, request(0, 1)) is ErrorCode.fetch_session_id_not_found
    sessions.begin(request(session_id, 1), 0, RNG)


def test_final_epoch_closes_the_session() -> None:
    sessions, session_id = opened(0)

    sessions.begin(request(session_id, -1, 0), 0, RNG)

    assert len(sessions) == 0


def test_full_fetch_replaces_the_session_it_names() -> None:
    sessions, session_id = opened(0)

    sessions.begin(request(session_id, 0, 0), 0, RNG)

    assert len(sessions) == 1
    assert code_of(sessions, request(session_id, 1)) is ErrorCode.fetch_session_id_not_found


def test_session_without_partitions_ends() -> None:
    sessions, session_id = opened(0)

    plan = sessions.begin(request(session_id, 1, forget=(0,)), 0, RNG)

    assert plan.session is None
    assert len(sessions) == 0


def test_epoch_wraps_to_one() -> None:
    sessions, session_id = opened(0)
    sessions._sessions[session_id].epoch = EPOCH_MAX

    sessions.begin(request(session_id, EPOCH_MAX), 0, RNG)

    assert sessions.begin(request(session_id, 1), 0, RNG).incremental


def test_topics_by_name_in_a_session_by_id_are_refused() -> None:
    sessions, session_id = opened(0, topic_id=UUID(int=1))

    assert code_of(sessions, request(session_id, 1, 1)) is ErrorCode.fetch_session_topic_id_error


def test_full_cache_gives_way_only_to_idle_sessions() -> None:
    sessions = FetchSessions(2)
    first = sessions.begin(request(0, 0, 0), 0, RNG).session
    second = sessions.begin(request(0, 0, 0), 0, RNG).session
    assert first is not None
    assert second is not None

    assert sessions.begin(request(0, 0, 0), EVICTION_MS - 1, RNG).session is None
    sessions.begin(request(first.session_id, 1), EVICTION_MS - 1, RNG)
    assert sessions.begin(request(0, 0, 0), EVICTION_MS, RNG).session is not None

    assert code_of(sessions, request(second.session_id, 1)) is ErrorCode.fetch_session_id_not_found
    sessions.begin(request(first.session_id, 2), EVICTION_MS, RNG)
