"""Where a repair may cut a log for its leader's: at the end of that log, and not where it only
starts again."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.repair.repair import RETRY_MS_MAX
from josefine_broker.engine.replicas.leading import begin_to_follow
from josefine_broker.records.batch import parse_header, stamp
from tests.unit.josefine_broker.api.world import batch_of
from tests.unit.josefine_broker.engine.replicas.repair.test_repairs import (
    LOG,
    TP,
    VALUES,
    Damaged,
    differing,
)


def test_log_whose_damage_lies_past_the_end_of_its_leaders_log_is_cut_there() -> None:
    """Nobody would ever send what it lacks, and it stayed out of sync for as long as nothing more
    was produced (life 617 of decay between kills, with transactions)."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.served_by = 3, hosted.partition.leader_epoch

    cluster.repair(2)

    assert "a log was cut where it differs from its leader's" in cluster.messages()
    assert not cluster.damaged(2)
    cluster.run()
    assert cluster.values(2) == VALUES
    cluster.produce(3, b"x")
    cluster.run()
    assert cluster.values(2) == [*VALUES, b"x"]


def test_log_whose_damage_lies_far_past_the_end_of_its_leaders_log_is_cut_there() -> None:
    """The leader had lost more than what is damaged here. What is in between was known to be
    committed, so nothing else could cut it (life 44629)."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.served_by = 3, hosted.partition.leader_epoch
    cluster.hosted(3).log.truncate_to(3)

    cluster.repair(2)

    assert hosted.log.log_end_offset == 5
    assert not cluster.damaged(2)


@pytest.mark.parametrize("leaders_end", [5, 3])
@pytest.mark.parametrize("case", ["another epoch", "committed", "damaged there"])
def test_log_is_not_cut_where_its_leaders_log_is_not_known_to_end_before_it(
    case: str, leaders_end: int
) -> None:
    """A leader that does not serve yet may still take its end from this replica; what was committed
    is cut by nobody; and a leader whose own batch is damaged there has more."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.served_by = 3, hosted.partition.leader_epoch
    if case != "damaged there":
        cluster.hosted(3).log.truncate_to(leaders_end)
    if case == "another epoch":
        hosted.served_by = 3, LeaderEpoch(hosted.partition.leader_epoch - 1)
    elif case == "committed":
        hosted.partition.high_watermark = 6
    else:
        cluster.produce(3, b"x", acks=1)
        data = cluster.files[3].names[LOG].data
        data[len(data) - 1] ^= 1
        leaders: Any = cluster.hosted(3).log
        for segment in leaders._segments:
            segment.reads.forget()

    for _ in range(3):
        cluster.repair(2, after_ms=RETRY_MS_MAX)

    assert hosted.log.log_end_offset == 7
    assert cluster.damaged(2)


def test_log_is_not_cut_where_its_copy_starts_again() -> None:
    """The leader's batches fit, and one of them is the first of a later epoch: the copy starts
    again with them. From the first offset, that looked like batches that do not fit: the whole log
    was cut, with committed batches that are damaged at the leader (life 44484)."""
    cluster = Damaged()
    cluster.lead(1)
    cluster.run()
    for value in (b"f", b"g"):
        cluster.produce(1, value)
        cluster.run()
    cluster.spoil(2, *range(6))
    cluster.spoil(1, 6)
    hosted: Any = cluster.hosted(2)
    hosted.log.damage.lacks_batches = True
    hosted.partition.damaged()
    hosted.partition.epochs.clear()
    cluster.silent = {3}

    for broker_id in (2, 1, 2):
        cluster.repair(broker_id, after_ms=RETRY_MS_MAX)

    assert "a log was cut where it differs from its leader's" not in cluster.messages()
    for broker_id in (1, 2):
        assert cluster.values(broker_id) == [*VALUES, b"f", b"g"]
        assert not cluster.damaged(broker_id)


def test_log_is_not_cut_for_a_damaged_batch_of_its_leader() -> None:
    """It was sent intact, or is damaged where the leader has verified it already: what does not
    fit is the damage."""
    cluster = differing()
    cluster.produce(3, b"x", b"y", b"z", acks=1)
    ports = cluster.ctx[2].ports
    forward = ports.forward
    assert forward is not None

    def damaging(replica: int, api_key: int, request: Any, deadline_ms: int, then: Any) -> None:
        def answered(answer: Any) -> None:
            part = answer.topics[0].partitions[0]
            if part.records:
                data = bytearray(b"".join(bytes(each) for each in part.records))
                data[-1] ^= 1
                topic = answer.topics[0]._replace(partitions=[part._replace(records=(data,))])
                answer = answer._replace(topics=[topic])
            then(answer)

        forward(replica, api_key, request, deadline_ms, answered)

    ports.forward = damaging
    cluster.repair(2)
    assert cluster.log_end(2) == 7

    ports.forward = forward
    for _ in range(2):
        cluster.repair(2, after_ms=RETRY_MS_MAX)
    assert cluster.log_end(2) == 5


@pytest.mark.parametrize("case", ["another replica", "a leader in doubt", "a leader that serves"])
def test_intact_batch_of_a_later_epoch_gives_way_only_to_the_log_of_the_partition(
    case: str,
) -> None:
    """The other replica has a batch of an earlier leader there, which was never committed (life
    48012). A leader that does not serve yet may still take its end from here."""
    cluster = Damaged(2)
    batch = bytearray(batch_of(b"of a leader who lost"))
    stamp(batch, 0, len(VALUES), cluster.entry().leader_epoch)
    cluster.hosted(1).log.append(memoryview(batch), parse_header(batch), 0)
    cluster.lead(2, isr=(2,))
    cluster.produce(2, b"f")
    cluster.lead(1)
    cluster.spoil(2, 1)
    hosted: Any = cluster.hosted(2)
    hosted.log.damage.lacks_batches = True
    hosted.partition.damaged()
    hosted.partition.epochs.clear()
    if case == "another replica":
        cluster.lead(2)
    elif case == "a leader that serves":
        hosted.served_by = 1, hosted.partition.leader_epoch

    cluster.repair(2)

    is_replaced = case == "a leader that serves"
    assert cluster.values(2) == [*VALUES, b"of a leader who lost" if is_replaced else b"f"]
    assert not cluster.damaged(2)


@pytest.mark.parametrize("case", ["", "a leader elected in doubt", "its high watermark is lost"])
def test_log_that_awaits_its_repair_does_not_restart_as_its_end_is_past_its_leaders(
    case: str,
) -> None:
    """The leader of a shorter log finds no common epoch, because damage hides all of them here. A
    restart would remove the only intact copy of a committed record."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.partition.high_watermark = known = 0 if "is lost" in case else 5
    if "in doubt" in case:
        hosted.partition.unclean_epoch = hosted.partition.leader_epoch
    for broker_id in (1, 3):
        cluster.spoil(broker_id, 1)
    cluster.repair(2)
    cluster.silent = {1, 3}

    cluster.run()

    assert cluster.log_end(2) >= 5
    assert cluster.high_watermark(2) == known
    cluster.silent = set()
    for _ in range(3):
        for broker_id in (2, 3, 1):
            cluster.repair(broker_id, after_ms=RETRY_MS_MAX)
            cluster.run()
    assert not cluster.hosted(2).partition.awaits_repair
    for broker_id in (1, 2, 3):
        assert not cluster.damaged(broker_id)
        assert cluster.values(broker_id) == VALUES


def test_log_that_awaits_its_repair_restarts_if_its_leader_has_deleted_all_of_it() -> None:
    cluster = differing()
    for value in (b"v", b"w", b"x", b"y"):
        cluster.produce(3, value, acks=1)
    cluster.hosted(3).log.delete_before(8)
    cluster.repair(2)

    cluster.run()
    cluster.repair(2)
    cluster.run()

    assert cluster.hosted(2).log.log_start_offset == 8
    assert not cluster.hosted(2).partition.awaits_repair
    assert cluster.values(2) == [b"y"]


@pytest.mark.parametrize(
    ("is_committed", "in_doubt"),
    [(False, False), (True, False), (True, True)],
    ids=["not committed", "committed", "committed, a leader elected in doubt"],
)
def test_log_that_ends_within_a_batch_of_its_leader_is_cut_below_its_high_watermark_only_in_doubt(
    is_committed: bool, in_doubt: bool
) -> None:
    """The batch shows that both logs differ, and an unclean election that the leader's counts."""
    cluster = differing()
    hosted = cluster.hosted(2)
    hosted.log.truncate_to(6)
    hosted.partition.high_watermark = 6 if is_committed else 5
    if in_doubt:
        hosted.partition.unclean_epoch = hosted.partition.leader_epoch
    cluster.produce(3, b"x", b"y", acks=1)
    begin_to_follow(cluster.ctx[2], TP, hosted)

    cluster.run()

    assert cluster.log_end(2) == (5 if in_doubt or not is_committed else 6)
