"""Registrations of brokers: one process at a time, and what its logs are worth."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.metadata.changes import At, RegisterBroker
from josefine_broker.engine.metadata.image import (
    COMPLETENESS_LEVEL,
    JOSEFINE_VERSION,
    NO_LEADER,
    FeatureRange,
)
from josefine_broker.engine.metadata.log_completeness import Completeness, LogClaims
from josefine_broker.engine.metadata.registration import check_unregister, register, unregister
from tests.unit.josefine_broker.engine.metadata.images import (
    TOPIC,
    TOPIC_ID,
    image_of,
    only,
    partition,
)

LEVELS = {JOSEFINE_VERSION: COMPLETENESS_LEVEL}
SUPPORTED = (FeatureRange(JOSEFINE_VERSION, 1, COMPLETENESS_LEVEL),)


def image(*partitions: Any, levels: dict[str, int] | None = None):
    return replace(image_of(partitions or [partition((1, 2))]), features=levels or {})


def registered(of: Any, broker_id: int = 1, **change: Any):
    values = {"incarnation": "new", "endpoints": (), "features": SUPPORTED, **change}
    return register(of, RegisterBroker(broker_id=broker_id, **values), At(4, 50))


def refused(of: Any, **change: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        registered(of, **change)
    return caught.value.code


def test_a_new_process_ends_the_leaderships_of_the_one_before_and_no_others() -> None:
    before = image(partition((1, 2)), partition((2, 1)), partition((2, 3)))

    after = registered(before, previous_epoch=10)

    led, follows, other = after.topics[TOPIC].partitions
    assert (led.leader, led.leader_epoch, led.partition_epoch) == (NO_LEADER, 4, 8)
    assert (follows, other) == before.topics[TOPIC].partitions[1:]
    assert (after.brokers[1].epoch, after.brokers[1].fenced) == (50, True)


def test_the_same_process_registers_once() -> None:
    before = image()

    assert registered(before, incarnation="i1") is before


def test_a_process_that_another_one_has_overtaken_is_refused() -> None:
    assert refused(image(), known_epoch=9) is ErrorCode.stale_broker_epoch
    assert registered(image(), known_epoch=10).brokers[1].epoch == 50
    assert registered(image(), broker_id=7, known_epoch=-1).brokers[7].epoch == 50


def test_a_broker_without_the_clusters_levels_is_refused_and_the_first_one_sets_them() -> None:
    assert refused(image(levels=LEVELS), features=()) is ErrorCode.unsupported_version
    first = registered(replace(image_of(brokers=()), topics={}))
    assert dict(first.features) == LEVELS
    assert first.features_epoch == 50


@pytest.mark.parametrize(
    ("change", "unclean"),
    [
        ({"clean": True, "previous_epoch": 10}, False),
        ({"clean": False, "previous_epoch": 10}, True),
        ({"clean": True, "previous_epoch": 9}, True),
        ({"broker_id": 8, "clean": False}, False),
    ],
)
def test_below_the_level_of_doubts_the_whole_broker_is_judged(change, unclean: bool) -> None:
    found = registered(image(), **change)

    assert found.brokers[change.get("broker_id", 1)].unclean is unclean


@pytest.mark.parametrize(
    ("claims", "previous_epoch", "doubt"),
    [
        (LogClaims(), 10, None),
        (LogClaims(), 9, Completeness.UNSYNCED),
        (LogClaims(logs={(TOPIC_ID, 0): Completeness.SHORTENED}), 10, Completeness.SHORTENED),
        (LogClaims(logs={(TOPIC_ID, 5): Completeness.SHORTENED}), 10, None),
        (LogClaims(default=Completeness.MISSING), 9, Completeness.MISSING),
    ],
)
def test_each_log_is_judged_by_what_its_disk_is(claims, previous_epoch: int, doubt) -> None:
    found = registered(image(levels=LEVELS), logs=claims, previous_epoch=previous_epoch,
                       known_epoch=10)  # fmt: skip

    assert only(found).completeness_of(1) is (doubt or Completeness.COMPLETE)
    assert only(found).completeness_of(2) is Completeness.COMPLETE
    assert not found.brokers[1].unclean


def test_a_follower_in_sync_whose_log_was_shortened_is_in_doubt_too() -> None:
    claims = LogClaims(default=Completeness.SHORTENED)

    found = registered(image(partition((2, 1)), levels=LEVELS), logs=claims, previous_epoch=10,
                       known_epoch=10)  # fmt: skip

    assert only(found).completeness_of(1) is Completeness.SHORTENED
    assert (only(found).leader, only(found).partition_epoch) == (2, 8)


def test_a_broker_that_has_lost_its_image_may_have_lost_any_log() -> None:
    found = registered(image(levels=LEVELS), logs=None, known_epoch=None)

    assert only(found).completeness_of(1) is Completeness.MISSING


def test_a_replica_out_of_sync_that_may_lack_unsynced_records_is_not_in_doubt() -> None:
    """It fetches before it counts."""
    outside = image(partition((2, 1), isr=(2,)), levels=LEVELS)

    found = registered(outside, logs=LogClaims(default=Completeness.UNSYNCED), previous_epoch=10,
                       known_epoch=10)  # fmt: skip

    assert only(found) is only(outside)


@pytest.mark.parametrize(
    ("of", "broker_id", "code"),
    [
        (image_of(), 9, ErrorCode.broker_id_not_registered),
        (image_of([partition((1, 2))]), 2, ErrorCode.invalid_request),
        (image_of(brokers=(1,)), 1, ErrorCode.invalid_request),
    ],
)
def test_a_broker_with_replicas_and_the_last_one_stay(of, broker_id: int, code) -> None:
    with pytest.raises(KafkaError) as caught:
        unregister(of, broker_id)
    assert caught.value.code is code


def test_an_unregistered_broker_is_gone_until_it_registers_again() -> None:
    before = image_of([partition((1, 2))])
    check_unregister(before, 3)

    gone = unregister(before, 3)

    assert (sorted(gone.brokers), gone.unregistered) == ([1, 2], {3})
    assert registered(gone, broker_id=3).unregistered == frozenset()
