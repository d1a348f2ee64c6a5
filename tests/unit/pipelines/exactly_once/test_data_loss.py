"""What retention took before it was read: found, recorded once, passed over by the chain."""

from __future__ import annotations

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.checkpoint_start import Checkpoint, Recorded, Start
from pipelines.exactly_once.data_loss import LostRange, losses, passing, standing, unrecorded
from pipelines.exactly_once.offset_chain import (
    Commit,
    Skip,
    Stop,
    Tip,
    Verdict,
    decide,
    decide_by_offset,
)
from tests.unit.pipelines.exactly_once.test_chain import batch

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
IDS = {"t": "id"}


def at(ends):
    return TopicOffsets(ends=ends, topic_ids=IDS)


def lost(start, end, partition=A, topic_id="id"):
    return LostRange(partition=partition, topic_id=topic_id, start=start, end=end)


def found(ends, *bounds, skip=True, ids=IDS):
    there = {TopicPartition("t", n): Bounds(*pair) for n, pair in enumerate(bounds)}
    return losses(at(ends), ids, there, skip=skip)


@pytest.mark.parametrize(
    ("ends", "bounds"),
    [({A: 5}, [(0, 9)]), ({A: 5}, [(5, 5)]), ({}, [(5, 9)]), ({A: 5, B: 7}, [(2, 9)])],
)
def test_what_is_still_there_is_no_loss(ends, bounds):
    assert found(ends, *bounds) == found(ends, *bounds, skip=False) == ()


def test_records_that_went_before_they_were_read_stop_with_their_ranges():
    stop = found({A: 5, B: 7}, (8, 9), (20, 20), skip=False)

    assert stop == Stop(
        verdict=Verdict.RECORDS_LOST, detail="t-0 offsets [5, 8), t-1 offsets [7, 20)"
    )
    assert found({A: 5, B: 7}, (8, 9), (20, 20)) == (lost(5, 8), lost(7, 20, B))


@pytest.mark.parametrize("skip", [True, False])
def test_a_topic_that_ends_before_the_table_is_never_passed_over(skip):
    stop = found({A: 5, B: 7}, (8, 9), (0, 3), skip=skip)

    assert stop == Stop(verdict=Verdict.TOPIC_SHORTER, detail="t-1 offsets [3, 7)")


def test_a_topic_that_was_created_again_is_not_lost_here():
    assert found({A: 5}, (8, 9), ids={"t": "another"}) == ()


PLANNED = Recorded(batch=3, end=TopicOffsets(ends={A: 9, B: 9}, first={A: 0, B: 4}, topic_ids=IDS))
TIP = Tip(reached=at({A: 5}), txn_version=4)


def test_a_sink_stands_at_the_tables_end_and_where_a_planned_batch_begins_what_is_new():
    checkpoint = Checkpoint(planned=PLANNED, committed=None)

    assert standing(Start(at={A: 5}, tip=TIP), checkpoint) == at({A: 5, B: 4})
    assert standing(Start(at={A: 0, B: 4}, tip=None), checkpoint) == at({A: 0, B: 4})
    aside = Start(at={A: 5}, tip=TIP, set_checkpoint_aside=True)
    assert standing(aside, checkpoint) == standing(Start(at={A: 5}, tip=TIP), None) == at({A: 5})
    assert standing(Start(at=None, tip=None), None) == TopicOffsets()


def test_the_chain_moves_behind_what_is_lost_and_goes_on_there():
    commit = passing(TIP, at({A: 5, B: 4}), [lost(5, 8)])

    assert commit == Commit(start={A: 5, B: 4}, end=at({A: 8, B: 4}), txn_version=5)
    behind = Tip(reached=commit.end, txn_version=5)
    after = batch({A: 8, B: 4}, {A: 9, B: 9}, ids=IDS)
    assert isinstance(decide(after, behind), Commit)
    assert passing(behind, behind.reached, [lost(5, 8)]) is None


def test_dead_letters_that_were_ahead_keep_their_place():
    dead = Tip(reached=at({A: 9}), txn_version=2)

    assert passing(dead, dead.reached, [lost(5, 8)]) is None
    behind = passing(dead, dead.reached, [lost(5, 12)])
    assert behind is not None
    next_batch = batch({A: 12}, {A: 15}, ids=IDS)
    assert isinstance(decide_by_offset(next_batch, Tip(reached=behind.end, txn_version=3)), Commit)
    assert decide_by_offset(batch({A: 5}, {A: 9}, ids=IDS), dead) == Skip()


@pytest.mark.parametrize(
    ("recorded", "left"),
    [
        ([], [(5, 20)]),
        ([lost(5, 20)], []),
        ([lost(0, 30)], []),
        ([lost(5, 8)], [(8, 20)]),
        ([lost(15, 20), lost(5, 8)], [(8, 15)]),
        ([lost(7, 9), lost(8, 12)], [(5, 7), (12, 20)]),
        ([lost(0, 5), lost(20, 30)], [(5, 20)]),
        ([lost(5, 20, B), lost(5, 20, topic_id="another")], [(5, 20)]),
    ],
)
def test_each_offset_is_recorded_once(recorded, left):
    assert unrecorded([lost(5, 20)], recorded) == [lost(*range_) for range_ in left]
