"""Who may write and read a replica, and how far."""

from dataclasses import replace

import pytest

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.engine.metadata.image import PartitionEntry
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.engine.partition.partition import Partition
from josefine_broker.engine.partition.producers import ProducerState
from josefine_broker.engine.partition.replica_role import TRANSITIONS, ReplicaEvent, ReplicaState
from josefine_broker.records.batch import BatchHeader

PLAIN = BatchHeader(0, 49, -1, 2, 0, 0, 2, 0, 0, -1, -1, -1, 3)


def entry(leader_epoch: int = 0, isr: tuple[int, ...] = (1,)) -> PartitionEntry:
    return PartitionEntry(
        leader=1, leader_epoch=leader_epoch, partition_epoch=0, replicas=(1, 2), isr=isr
    )


def opened() -> Partition:
    return Partition(ProducerState(), LeaderEpochs())


def leading(leader_epoch: int = 3, end_offset: int = 10) -> Partition:
    partition = opened()
    partition.lead(entry(leader_epoch), end_offset, 0)
    return partition


def code_of(partition: Partition, current_leader_epoch: int) -> ErrorCode:
    with pytest.raises(KafkaError) as raised:
        partition.check_serves(current_leader_epoch)
    return raised.value.code


def test_replica_that_was_not_told_to_lead_serves_nobody() -> None:
    assert code_of(opened(), -1) is ErrorCode.not_leader_or_follower
    with pytest.raises(KafkaError):
        opened().check_append(PLAIN, 1)


def test_request_of_an_older_epoch_is_fenced_and_of_a_newer_one_unknown() -> None:
    """KIP-320."""
    partition = leading(leader_epoch=3)

    partition.check_serves(3)
    partition.check_serves(-1)
    assert code_of(partition, 2) is ErrorCode.fenced_leader_epoch
    assert code_of(partition, 4) is ErrorCode.unknown_leader_epoch


def test_new_leader_epoch_starts_at_the_log_end() -> None:
    partition = leading(leader_epoch=3, end_offset=10)

    assert partition.epochs.starts == ((3, 10),)
    assert not partition.lead(entry(3), 12, 0)
    assert partition.lead(entry(4), 15, 0)
    assert partition.epochs.starts == ((3, 10), (4, 15))


def test_epoch_that_wrote_nothing_is_forgotten_by_who_follows() -> None:
    """The last epoch that a follower names must be that of its last record (KIP-595)."""
    partition = leading(leader_epoch=3, end_offset=10)

    partition.follow(replace(entry(4), leader=2), 10)

    assert partition.epochs.latest == -1
    assert partition.state is ReplicaState.FOLLOWER


def test_leader_epoch_that_goes_back_is_fatal() -> None:
    with pytest.raises(Fatal):
        leading(leader_epoch=3).lead(entry(2), 10, 0)


def test_high_watermark_is_the_log_end_of_the_only_replica_and_never_falls() -> None:
    partition = opened()
    alone = replace(entry(3), replicas=(1,))
    partition.lead(alone, 10, 0)
    assert partition.high_watermark == 10

    partition.appended(PLAIN, 10, 0)
    partition.lead(alone, 13, 0)

    assert partition.high_watermark == 13


def test_consumer_reads_below_the_high_watermark_and_a_debugger_to_the_end() -> None:
    partition = leading(end_offset=10)

    assert partition.readable_end(-1, 12) == 10
    assert partition.readable_end(-2, 12) == 12


def test_broker_that_is_no_replica_may_not_fetch_as_one() -> None:
    with pytest.raises(KafkaError):
        leading().readable_end(7, 10)


def test_acks_all_counts_the_replicas_in_sync() -> None:
    partition = leading()
    partition.min_insync_replicas = 2

    with pytest.raises(KafkaError) as raised:
        partition.check_append(PLAIN, -1)

    assert raised.value.code is ErrorCode.not_enough_replicas
    assert partition.check_append(PLAIN, 1) is None
    partition.lead(entry(3, isr=(1, 2)), 10, 0)
    assert partition.check_append(PLAIN, -1) is None


def test_appended_bytes_count_whole_batches() -> None:
    partition = leading()

    partition.appended(PLAIN, 10, 0)

    assert partition.appended_bytes == PLAIN.size_bytes


def test_every_role_may_be_given_in_every_state_but_to_a_log_that_lacks_batches() -> None:
    roles = {ReplicaEvent.LEAD, ReplicaEvent.FOLLOW}

    given = {(state, event) for state, event in TRANSITIONS if event in roles}

    assert given == {(s, e) for s in ReplicaState for e in roles if s is not ReplicaState.REPAIRING}


@pytest.mark.parametrize("state", [ReplicaState.REPAIRING, ReplicaState.CATCHING_UP])
def test_replica_that_is_not_ready_serves_neither_clients_nor_followers(
    state: ReplicaState,
) -> None:
    partition = opened()
    if state is ReplicaState.REPAIRING:
        partition.damaged()
        partition.assign(entry(3))
    else:
        partition.doubted(entry(3))

    for serves in (partition.check_serves, partition.check_reads):
        with pytest.raises(KafkaError) as raised:
            serves()
        assert raised.value.code is ErrorCode.not_leader_or_follower
    assert (partition.state, partition.leader, partition.leader_epoch) == (state, 1, 3)


def test_high_watermark_moves_with_all_in_sync_where_there_are_fewer_than_the_minimum() -> None:
    """KIP-966's rule would otherwise hide for ever what acks=1 wrote to a topic of two replicas."""
    partition = opened()
    partition.min_insync_replicas = 3
    partition.lead(entry(isr=(1, 2)), 0, 0)
    partition.appended(PLAIN, 0, 0)

    partition.follower_fetched(2, 3, 0, 3, 1, may_join=True)
    assert partition.high_watermark == 3

    partition.lead(entry(isr=(1,)), 3, 0)
    partition.appended(PLAIN, 3, 0)
    assert not partition.advance_high_watermark(6)


def test_follower_of_an_epoch_that_the_leader_never_had_is_told_where_it_parted() -> None:
    """KIP-279: it may lie wholly within ours and hold other records all the same."""
    partition = Partition(ProducerState(), LeaderEpochs([(2, 0), (4, 10)]))

    assert partition.diverging(8, 3, 12, has_holes=False) == (2, 10)
    assert partition.diverging(8, 2, 12, has_holes=False) is None
    assert partition.diverging(12, 2, 12, has_holes=False) == (2, 10)
    assert partition.diverging(12, 4, 12, has_holes=False) is None


@pytest.mark.parametrize(("end", "place"), [(8, (2, 10)), (10, (2, 10)), (11, None)])
def test_follower_that_ends_before_its_last_epoch_started_is_told_where_that_was(
    end: int, place: tuple[int, int] | None
) -> None:
    """A flipped bit made the epoch of its last batch a later one: nothing that the leader sent
    fitted after it (life 44040)."""
    partition = Partition(ProducerState(), LeaderEpochs([(2, 0), (4, 10)]))

    assert partition.diverging(end, 4, 12, has_holes=False) == place


@pytest.mark.parametrize("case", ["compacted", "deleted"])
def test_start_of_an_epoch_that_is_not_known_is_no_reason_to_cut_a_follower(case: str) -> None:
    """Its first batches were cleaned away, or are below the log start. The follower has them."""
    partition = Partition(ProducerState(), LeaderEpochs([(2, 0), (4, 10)]))
    if case == "deleted":
        partition.started_at(15)

    assert partition.diverging(15, 4, 20, has_holes=False) is None
    assert partition.diverging(8, 4, 20, has_holes=True) is None


def test_epochs_past_the_log_end_are_gone_when_it_leads() -> None:
    """A loss of power may take records and leave the checkpoint that names their epoch."""
    partition = Partition(ProducerState(), LeaderEpochs([(1, 0), (2, 10)]))

    partition.lead(entry(3), 8, 0)

    assert partition.epochs.starts == ((1, 0), (3, 8))


def test_leader_that_is_named_anew_is_not_stranded_any_more() -> None:
    partition = leading()
    partition.is_stranded = True

    partition.lead(entry(4), 10, 0)
    assert partition.check_append(PLAIN, -1) is None

    partition.is_stranded = True
    partition.follow(replace(entry(5), leader=2), 10)
    assert not partition.is_stranded


def following(end_offset: int = 0) -> Partition:
    partition = opened()
    partition.follow(replace(entry(0, isr=(1, 2)), leader=2), end_offset)
    return partition


def test_bytes_of_a_batch_that_was_cut_away_are_not_waited_for() -> None:
    """They are compared by waiting consumers: two batches of 61 bytes, the second one cut."""
    partition = following()
    for base_offset in (0, 3):
        partition.copied(PLAIN._replace(base_offset=base_offset, leader_epoch=0), b"", 0)
    partition.truncated(3)

    partition.follow_high_watermark(3, 3)
    assert (partition.committed_bytes, partition.appended_bytes) == (61, 122)

    partition.copied(PLAIN._replace(base_offset=3, leader_epoch=0), b"", 0)
    partition.follow_high_watermark(6, 6)
    assert partition.committed_bytes == partition.appended_bytes == 183


def test_a_log_that_begins_anew_further_down_counts_its_committed_bytes_from_there() -> None:
    partition = following(end_offset=50)
    partition.copied(PLAIN._replace(base_offset=50, leader_epoch=0), b"", 0)

    partition.restarted(10)
    partition.copied(PLAIN._replace(base_offset=10, leader_epoch=0), b"", 0)
    partition.follow_high_watermark(13, 13)

    assert partition.high_watermark == 13
    assert partition.committed_bytes == partition.appended_bytes


def test_log_that_begins_anew_further_up_takes_any_sequence_of_its_producers() -> None:
    """What they sent between its old end and its new start was deleted before it came here."""
    partition = following()
    sent = PLAIN._replace(producer_id=7, producer_epoch=0, base_sequence=0, leader_epoch=0)
    partition.copied(sent, b"", 0)

    partition.restarted(95)

    partition.lead(entry(5), 95, 0)
    partition.check_append(sent._replace(base_sequence=49), 1)
