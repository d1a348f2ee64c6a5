"""Ends and ids of a stream's topics: none from old metadata, and few requests when idle."""

from __future__ import annotations

from uuid import UUID

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_spark.options.options import Subscription
from josefine_spark.read.topic_metadata import METADATA_AGE_MS, MetadataCache
from tests.unit.josefine_spark.read.test_idle_query import T0, T1, Brokers


@pytest.fixture
def brokers():
    return Brokers()


def cache_of():
    return MetadataCache(Subscription(topics=("t",)), read_committed=False)


def requests(brokers):
    found = list(brokers.requests)
    brokers.requests.clear()
    return found


def test_a_stream_that_has_read_everything_asks_for_the_ends_alone(brokers):
    cache = cache_of()
    seen = cache.look(brokers, 0)
    requests(brokers)

    assert cache.look(brokers, METADATA_AGE_MS - 1, seen) is seen
    assert requests(brokers) == ["list_offsets"]


def test_metadata_is_asked_for_again_when_it_is_old_or_an_end_has_moved(brokers):
    cache = cache_of()
    seen = cache.look(brokers, 0)
    requests(brokers)

    assert cache.look(brokers, METADATA_AGE_MS, seen) == seen
    assert "metadata" in requests(brokers)
    brokers.ends[T0] = 6
    assert cache.look(brokers, METADATA_AGE_MS, seen).ends == {T0: 6}
    assert requests(brokers)[:2] == ["list_offsets", "metadata"]


def test_a_stream_that_lags_gets_new_metadata_each_time(brokers):
    cache = cache_of()
    seen = cache.look(brokers, 0)
    requests(brokers)

    cache.look(brokers, 1, type(seen)(ends={T0: 1}, topic_ids=seen.topic_ids))

    assert requests(brokers)[0] == "metadata"


def test_a_topic_that_was_created_again_has_its_new_id_and_its_own_first_offset(brokers):
    cache = cache_of()
    seen = cache.look(brokers, 0)

    brokers.topic_id = UUID(int=2)
    brokers.ends = {T0: 5, T1: 1}
    found = cache.look(brokers, 1)

    assert found.topic_ids == {"t": str(UUID(int=2))}
    assert found.topic_ids != seen.topic_ids
    assert found.first == {T0: 0, T1: 0}


def test_a_partition_that_is_gone_is_looked_up_and_another_error_is_raised(brokers):
    cache = cache_of()
    seen = cache.look(brokers, 0)
    brokers.ends = {}

    assert cache.look(brokers, 1, seen).ends == {}

    brokers.ends = {T0: 5}
    seen = cache.look(brokers, 2)

    def fail(wanted, *, isolation_level):
        raise KafkaError(ErrorCode.request_timed_out)

    brokers.list_offsets = fail
    with pytest.raises(KafkaError):
        cache.look(brokers, 3, seen)
