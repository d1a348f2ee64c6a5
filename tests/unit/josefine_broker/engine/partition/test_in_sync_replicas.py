"""The in-sync replicas of a partition: which replica leaves the ISR and which joins it."""

from josefine_broker.base.errors import ErrorCode
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.api.replicas import Replicas, result_of


def test_follower_that_lags_leaves_the_isr_and_joins_again_when_it_has_caught_up(
    cluster: Replicas,
) -> None:
    """Checklist row 35."""
    cluster.waiting = [w for w in cluster.waiting if w.follower.broker_id != 3]
    waiting = cluster.produce(1, b"a", timeout_ms=60_000)
    send_and_receive(cluster, 2)
    assert not waiting.done

    cluster.advance(1_001)
    send_and_receive(cluster, 2)
    cluster.check_isrs()

    assert cluster.entry().isr == (1, 2)
    assert result_of(waiting).error_code == 0
    cluster.ctx[3].hosted.fetchers.by_leader[1].disconnected()
    cluster.run()
    assert cluster.entry().isr == (1, 2, 3)


def send_and_receive(cluster: Replicas, follower: int) -> None:
    """Only this follower fetches, until it rests."""
    for _ in range(10):
        cluster.send(follower, 1)
        for waiting in [w for w in cluster.waiting if w.follower.broker_id == follower]:
            cluster.receive(waiting)


def test_idle_partition_keeps_its_followers_in_sync_without_fetches(cluster: Replicas) -> None:
    cluster.produce(1, b"a")
    cluster.run()

    cluster.advance(60_000)
    cluster.check_isrs()
    cluster.produce(1, b"b")
    cluster.check_isrs()

    assert cluster.entry().isr == (1, 2, 3)


def test_follower_joins_under_steady_load(cluster: Replicas) -> None:
    """The high watermark waits for one that keeps pace, or it would run away for ever."""
    cluster.kill(3)
    assert cluster.entry().isr == (1, 2)
    cluster.start(3)

    for _ in range(12):
        cluster.produce(1, b"more")
        cluster.step()

    assert cluster.entry().isr == (1, 2, 3)


def test_isr_change_of_all_partitions_is_one_block() -> None:
    cluster = Replicas(2)
    cluster.create(replicas=((1, 2),) * 20)
    cluster.run()
    for index in range(20):
        cluster.produce(1, b"a", index=index)
    blocks = len(cluster.chain)

    cluster.advance(1_001)
    cluster.check_isrs()

    assert [cluster.entry(index).isr for index in range(20)] == [(1,)] * 20
    assert len(cluster.chain) == blocks + 1


def test_refused_isr_change_is_made_again_later(cluster: Replicas) -> None:
    cluster.produce(1, b"a")
    cluster.at_once = False
    cluster.advance(1_001)
    cluster.check_isrs()
    cluster.chain.pop()  # the proposal is lost; its proposer gives up at its deadline
    cluster.at_once = True

    cluster.advance(10_000)
    cluster.check_isrs()
    cluster.advance(1_000)
    cluster.check_isrs()

    assert cluster.entry().isr == (1,)


def test_isr_change_that_cannot_be_submitted_is_made_once_it_can(cluster: Replicas) -> None:
    """It is not taken for one on its way, after which no other would be made."""
    cluster.kill(3, fenced=False)
    me = cluster.ctx[1].cluster
    incarnation, me.incarnation = me.incarnation, "unknown to the image"
    cluster.produce(1, b"a", acks=1)
    cluster.advance(1_100)
    cluster.check_isrs()
    assert cluster.entry().isr == (1, 2, 3)

    me.incarnation = incarnation
    cluster.check_isrs()

    assert 3 not in cluster.entry().isr


def test_member_that_a_proposal_in_flight_adds_holds_the_high_watermark(
    cluster: Replicas,
) -> None:
    cluster.kill(3)
    cluster.start(3)
    cluster.at_once = False
    cluster.run()
    assert cluster.entry().isr == (1, 2)

    cluster.produce(1, b"a")
    send_and_receive(cluster, 2)

    assert cluster.high_watermark(1) == 0
    cluster.at_once = True
    cluster.deliver()
    cluster.run()
    assert (cluster.entry().isr, cluster.high_watermark(1)) == ((1, 2, 3), 1)


def test_fetch_of_an_older_incarnation_is_refused(cluster: Replicas) -> None:
    """KIP-903."""
    ctx = cluster.ctx[2]
    fetcher = ctx.hosted.fetchers.by_leader[1]
    fetcher.disconnected()
    _, request = fetcher.request(0, ctx.broker_epoch - 1)

    answer = cluster.ask(1, 1, request, 17)

    assert answer.error_code == ErrorCode.stale_broker_epoch


def test_replica_that_came_back_without_its_records_does_not_join_by_what_it_had_before(
    cluster: Replicas,
) -> None:
    """KIP-903: the proposal was made for the process before."""
    cluster.kill(3)
    cluster.produce(1, b"a")
    cluster.start(3)
    cluster.at_once = False
    cluster.run()
    late = cluster.chain.pop()  # the leader's proposal: 3 has caught up
    cluster.kill(3)
    cluster.files[3] = MemoryFiles()
    cluster.start(3)

    cluster.chain.append(late)
    cluster.deliver()

    assert cluster.entry().isr == (1, 2)
