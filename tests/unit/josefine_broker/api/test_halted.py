"""A follower gives up what was confirmed only where an unclean election may have taken it."""

from dataclasses import replace

import pytest

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.features import SUPPORTED
from josefine_broker.engine.metadata.image import Doubt
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.engine.ports import Gravity
from josefine_broker.engine.replicas.following import HALT_MS, HaltError, restart
from josefine_broker.observe.health import check_replicas
from tests.unit.josefine_broker.api.replicas import Replicas
from tests.unit.josefine_broker.engine.metadata.images import partition

LEVEL = {"josefine.version": SUPPORTED[0].max_level}


def confirmed() -> Replicas:
    """Three records that every replica knows to be confirmed; broker 2 then loses two of them, or
    all, and nobody was told."""
    cluster = Replicas(3)
    cluster.create()
    cluster.image = replace(cluster.image, features=LEVEL)
    for ctx in cluster.ctx.values():
        ctx.image = replace(ctx.image, features=LEVEL)
    cluster.produce(1, b"a")
    cluster.produce(1, b"b")
    cluster.produce(1, b"c")
    cluster.run()
    cluster.advance(600)
    cluster.run()
    assert [cluster.high_watermark(each) for each in (1, 2, 3)] == [3, 3, 3]
    return cluster


def shorten(cluster: Replicas, end_offset: int) -> None:
    hosted = cluster.hosted(2)
    hosted.log.truncate_to(end_offset)
    hosted.partition.truncated(end_offset)


@pytest.mark.parametrize("end_offset", [0, 1])
def test_follower_keeps_what_was_confirmed_from_a_leader_that_lacks_it(end_offset: int) -> None:
    """Also where the leader has nothing at all, and answers that the offset is out of range."""
    cluster = confirmed()
    before = cluster.records(1)
    shorten(cluster, end_offset)

    cluster.lead(2)
    cluster.run()

    for follower in (1, 3):
        assert cluster.records(follower) == before
        assert cluster.high_watermark(follower) == 3
        assert cluster.ctx[follower].hosted.counters.truncations_refused == 1
        assert "acknowledged" in cluster.hosted(follower).halt
    check = check_replicas(cluster.ctx[1])
    assert not check.ok
    assert check.detail.startswith("not followed: orders-0: broker 2, the leader in epoch 1,")


def test_what_happens_to_a_log_is_told_at_once_and_once() -> None:
    cluster = confirmed()
    told: dict[int, list[tuple[str, Gravity, dict[str, object]]]] = {1: [], 2: [], 3: []}
    for broker_id, ctx in cluster.ctx.items():

        def tell(
            message: str,
            /,
            *,
            gravity: Gravity = Gravity.INFO,
            of: int = broker_id,
            **fields: object,
        ) -> None:
            told[of].append((message, gravity, fields))

        ctx.ports.tell = tell
    shorten(cluster, 1)

    cluster.lead(2)
    cluster.run()
    cluster.advance(HALT_MS)
    cluster.run()

    assert told[2] == []
    for follower in (1, 3):
        reason = cluster.hosted(follower).halt
        event = {"partition": "orders-0", "reason": reason}
        assert told[follower] == [("replication stopped", Gravity.ERROR, event)]


def test_a_halted_follower_asks_again_and_is_free_under_another_leader() -> None:
    cluster = confirmed()
    shorten(cluster, 1)
    cluster.lead(2)
    cluster.run()
    cluster.advance(HALT_MS)
    cluster.run()
    assert cluster.ctx[1].hosted.counters.truncations_refused == 1, "it is told once"
    assert cluster.hosted(1).halt

    cluster.lead(3)
    cluster.run()

    assert cluster.hosted(1).halt == ""
    assert check_replicas(cluster.ctx[1]).ok
    assert cluster.records(2) == cluster.records(1) == cluster.records(3)
    assert len(cluster.records(1)) == 3


@pytest.mark.parametrize("end_offset", [0, 1])
def test_an_unclean_election_may_take_what_was_confirmed(end_offset: int) -> None:
    """And then nothing says that there is more than there is."""
    cluster = confirmed()
    shorten(cluster, end_offset)
    cluster.lead(1, isr=(1, 3))

    cluster.lead(2, isr=(2,))
    cluster.produce(2, b"anew")
    cluster.run()

    assert cluster.entry().unclean_epoch == cluster.entry().leader_epoch
    for follower in (1, 3):
        assert cluster.records(follower) == cluster.records(2)
        assert cluster.high_watermark(follower) <= cluster.log_end(follower) == end_offset + 1
        assert cluster.ctx[follower].hosted.counters.truncations_refused == 0


def test_below_the_level_that_tells_nothing_is_refused() -> None:
    cluster = confirmed()
    for ctx in cluster.ctx.values():
        ctx.image = replace(ctx.image, features={"josefine.version": 1})
    shorten(cluster, 1)

    cluster.lead(2)
    cluster.run()

    assert len(cluster.records(1)) == 1


def test_an_unclean_election_counts_until_its_leader_was_followed() -> None:
    replica = Partition(ProducerState(), LeaderEpochs([(3, 0)]), high_watermark=5)
    replica.follow(replace(partition((1, 2), leader_epoch=4), unclean_epoch=4), 8)
    assert replica.may_be_cut_to(5)
    assert replica.may_be_cut_to(2)

    replica.epochs.assign(4, 8)

    assert replica.may_be_cut_to(5)
    assert not replica.may_be_cut_to(4)


def test_a_truncated_log_takes_its_high_watermark_along() -> None:
    replica = Partition(ProducerState(), LeaderEpochs([(3, 0)]), high_watermark=5)

    replica.truncated(3)

    assert replica.high_watermark == 3


@pytest.mark.parametrize(("start", "high_watermark"), [(0, 3), (3, 3), (4, 0)])
def test_a_leader_that_has_it_or_deleted_it_may_be_begun_anew_with(
    start: int, high_watermark: int
) -> None:
    cluster = confirmed()
    hosted = cluster.hosted(1)

    restart(cluster.ctx[1], TopicPartition("orders", 0), hosted, start, high_watermark)

    assert (hosted.log.log_start_offset, hosted.log.log_end_offset) == (start, start)


def test_a_leader_that_has_less_is_not_begun_anew_with() -> None:
    cluster = confirmed()
    hosted = cluster.hosted(1)

    with pytest.raises(HaltError):
        restart(cluster.ctx[1], TopicPartition("orders", 0), hosted, 0, 2)

    assert hosted.log.log_end_offset == 3


def test_a_follower_in_doubt_is_cut_as_its_leader_says() -> None:
    """Its log is no evidence against the leader's; found by a simulated life (seed 132)."""
    cluster = confirmed()
    shorten(cluster, 1)
    for ctx in cluster.ctx.values():
        topic = ctx.image.topics["orders"]
        entry = replace(topic.partitions[0], doubts=(Doubt(1, Completeness.SHORTENED),))
        topic = replace(topic, partitions=(entry,))
        ctx.image = replace(ctx.image, topics={"orders": topic})

    cluster.lead(2)
    cluster.run()

    assert len(cluster.records(1)) == 1
    assert cluster.hosted(1).halt == ""
    assert len(cluster.records(3)) == 3
