"""Checkpoint against table, as a table: the verdicts and what trusting one side does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets, nested
from pipelines.exactly_once.checkpoint_start import (
    Checkpoint,
    Recorded,
    Start,
    Trust,
    Unreadable,
    dead_letters_gone,
    leaves_out,
    reconcile,
)
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict

A, B = ("t", 0), ("t", 1)


def tip(ends, ids=None):
    return Tip(reached=TopicOffsets(ends=ends, topic_ids=ids or {"t": "id"}), txn_version=4)


def recorded(batch, ends, first=None, ids=None):
    end = TopicOffsets(ends=ends, topic_ids=ids or {"t": "id"}, first=first or {A: 0})
    return Recorded(batch=batch, end=end)


def checkpoint(planned, committed=None, damaged=""):
    return Checkpoint(planned=planned, committed=committed, damaged=damaged)


EQUAL = checkpoint(recorded(3, {A: 9}), recorded(3, {A: 9}))
OPEN = checkpoint(recorded(3, {A: 9}), recorded(2, {A: 5}))
FIRST = checkpoint(recorded(0, {A: 9}, {A: 2}))


@pytest.mark.parametrize(
    ("table", "verdict"),
    [
        (None, Verdict.TABLE_HAS_NOTHING),
        (tip({}), Verdict.TABLE_BEHIND),
        (tip({A: 1}), Verdict.TABLE_BEHIND),
        (tip({A: 2}), None),
        (tip({A: 9}), None),
    ],
)
def test_a_first_batch_behind_a_table_goes_on_from_that_table_only(table, verdict):
    """A run whose checkpoint was lost died in its first batch; then the table went, too."""
    state = replace(FIRST, continues={A: 2})

    outcome = reconcile(state, table)

    assert (outcome.verdict if isinstance(outcome, Stop) else None) is verdict


@pytest.mark.parametrize(
    ("state", "table", "at"),
    [
        (None, None, None),
        (None, tip({A: 9}), {A: 9}),
        (EQUAL, tip({A: 9}), {A: 9}),
        (OPEN, tip({A: 9}), {A: 9}),
        (OPEN, tip({A: 5}), {A: 5}),
        (FIRST, tip({A: 9}), {A: 9}),
        (FIRST, tip({A: 2}), {A: 2}),
        (FIRST, None, {A: 2}),
        (EQUAL, tip({A: 9, ("left", 0): 7}), {A: 9, ("left", 0): 7}),
    ],
)
def test_sides_that_agree_go(state, table, at):
    assert reconcile(state, table) == Start(at=at, tip=table)


@pytest.mark.parametrize(
    ("state", "table", "verdict"),
    [
        (EQUAL, tip({A: 12}), Verdict.TABLE_AHEAD),
        (EQUAL, tip({A: 9, B: 1}), Verdict.TABLE_AHEAD),
        (EQUAL, tip({A: 7}), Verdict.TABLE_BEHIND),
        (EQUAL, tip({}), Verdict.TABLE_BEHIND),
        (EQUAL, None, Verdict.TABLE_HAS_NOTHING),
        (FIRST, tip({A: 12}), Verdict.TABLE_AHEAD),
        (FIRST, tip({A: 1}), Verdict.TABLE_ELSEWHERE),
        (
            checkpoint(recorded(3, {A: 9, B: 9}), recorded(3, {A: 9, B: 9})),
            tip({A: 12, B: 7}),
            Verdict.TABLE_ELSEWHERE,
        ),
        (EQUAL, tip({A: 9}, {"t": "old"}), Verdict.TOPIC_RECREATED),
        (EQUAL, Unreadable(txn_version=4), Verdict.TABLE_UNREADABLE),
        (None, Unreadable(txn_version=4), Verdict.TABLE_UNREADABLE),
        (checkpoint(None, None, "gone"), tip({A: 9}), Verdict.CHECKPOINT_DAMAGED),
    ],
)
def test_sides_that_disagree_stop_with_a_verdict(state, table, verdict):
    outcome = reconcile(state, table)

    assert isinstance(outcome, Stop)
    assert outcome.verdict is verdict


def test_trusting_the_table_sets_the_checkpoint_aside_also_when_both_agree():
    for state in (EQUAL, OPEN, FIRST, None, checkpoint(None, None, "gone")):
        outcome = reconcile(state, tip({A: 12}), Trust.TABLE)

        assert outcome == Start(at={A: 12}, tip=tip({A: 12}), set_checkpoint_aside=True)


def test_trusting_the_checkpoint_continues_the_chain_from_its_offsets():
    outcome = reconcile(EQUAL, tip({A: 12}), Trust.CHECKPOINT)

    assert outcome == Start(at={A: 9}, tip=tip({A: 9}))


def test_trusting_the_checkpoint_settles_an_unreadable_table_with_its_txn_version():
    outcome = reconcile(EQUAL, Unreadable(txn_version=30), Trust.CHECKPOINT)

    assert isinstance(outcome, Start)
    assert outcome.tip == replace(tip({A: 9}), txn_version=30)


def test_trusting_the_checkpoint_forgets_partitions_that_it_does_not_know():
    outcome = reconcile(EQUAL, tip({A: 9, ("left", 0): 7}), Trust.CHECKPOINT)

    assert isinstance(outcome, Start)
    assert outcome.tip == tip({A: 9})


@pytest.mark.parametrize(
    ("state", "table", "trust"),
    [
        (None, Unreadable(txn_version=4), Trust.TABLE),
        (None, Unreadable(txn_version=4), Trust.CHECKPOINT),
        (FIRST, tip({A: 12}), Trust.CHECKPOINT),
        (checkpoint(None, None, "gone"), tip({A: 9}), Trust.CHECKPOINT),
    ],
)
def test_a_side_that_says_nothing_cannot_be_trusted(state, table, trust):
    assert isinstance(reconcile(state, table, trust), Stop)


def wrote(path, letters=None):
    said = {"dead_letters": path} | ({} if letters is None else {"letters": nested(letters)})
    return replace(tip({A: 9}), said=said)


@pytest.mark.parametrize(
    ("table", "dead", "gone"),
    [
        (wrote("/dead"), None, True),
        (wrote("/dead"), tip({}), True),
        (wrote("/dead"), tip({A: 9}), False),
        # Written elsewhere before, or not at all.
        (wrote("/elsewhere"), None, False),
        (tip({A: 9}), None, False),
        (None, None, False),
        # Batches without letters left the table where it was.
        (wrote("/dead", {A: 4}), tip({A: 4}), False),
        (wrote("/dead", {A: 4}), tip({A: 7}), False),
        (wrote("/dead", {A: 4}), tip({A: 3}), True),
        (wrote("/dead", {A: 4}), tip({B: 4}), True),
        (wrote("/dead", {A: 4}), None, True),
        # A start's commit, before the first batch.
        (wrote("/dead", {}), None, False),
        # The letters were another topic's.
        (wrote("/dead", {A: 4}), tip({A: 1}, {"t": "another"}), False),
    ],
)
def test_dead_letters_that_batches_wrote_must_be_there(table, dead, gone):
    assert dead_letters_gone(table, dead, "/dead") == gone


BOTH = checkpoint(recorded(3, {A: 9, B: 4}), recorded(3, {A: 9, B: 4}))


@pytest.mark.parametrize(
    ("state", "table"),
    [
        # The table keeps where it is in B, the checkpoint is from before or from after.
        (EQUAL, tip({A: 9, B: 4})),
        (BOTH, tip({A: 9, B: 4})),
        (None, tip({A: 9, B: 4})),
    ],
)
def test_of_partitions_that_are_read_no_more_the_table_alone_knows(state, table):
    assert reconcile(state, table, assigned=[A]) == Start(at={A: 9, B: 4}, tip=table)


@pytest.mark.parametrize(
    ("state", "table", "verdict"),
    [
        (EQUAL, tip({A: 12, B: 4}), Verdict.TABLE_AHEAD),
        (BOTH, tip({A: 7, B: 4}), Verdict.TABLE_BEHIND),
        (BOTH, tip({A: 9, B: 5}), Verdict.TABLE_AHEAD),
    ],
)
def test_partitions_that_are_read_must_agree_and_so_must_what_both_sides_know(
    state, table, verdict
):
    outcome = reconcile(state, table, assigned=[A])

    assert isinstance(outcome, Stop)
    assert outcome.verdict is verdict


def test_a_checkpoint_leaves_out_what_it_has_and_nobody_reads():
    assert leaves_out(BOTH, [A])
    assert not leaves_out(BOTH, [A, B])
    assert not leaves_out(EQUAL, [A])
    assert not leaves_out(BOTH, [])
    assert not leaves_out(None, [A])
