"""A leader's view of its followers: whom the high watermark waits for, and who may be in sync."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.metadata.image import PartitionEntry
from josefine_broker.engine.partition.replication import REFUSED_WAIT_MS, Followers

LAG_MS = 1_000
ENTRY = PartitionEntry(leader=1, leader_epoch=4, partition_epoch=7, replicas=(1, 2, 3), isr=(1, 2))


def fetch(followers: Followers, broker_id: int, offset: int, end: int, now_ms: int = 0) -> None:
    followers.fetched(broker_id, offset, 0, end, now_ms, may_join=True)


def wanted(
    followers: Followers, end: int, now_ms: int = 0, high_watermark: int = 0, epoch_start: int = 0
) -> tuple[int, ...] | None:
    behind = followers.behind(end, now_ms, LAG_MS)
    followers.drop_joining(behind)
    return followers.wanted_isr(high_watermark, epoch_start, behind, now_ms)


def test_nothing_is_committed_before_every_member_was_heard() -> None:
    followers = Followers(ENTRY, 0)

    assert followers.committed_end(10) == -1
    fetch(followers, 2, 8, 10)
    assert followers.committed_end(10) == 8


def test_replica_outside_the_isr_does_not_hold_the_high_watermark_while_it_is_far_behind() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)

    fetch(followers, 3, 2, 10)

    assert followers.committed_end(10) == 10


def test_replica_that_keeps_pace_holds_the_high_watermark_before_it_joins() -> None:
    """Else it could run before it for ever under steady load."""
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 2, 10)
    fetch(followers, 2, 12, 12)

    fetch(followers, 3, 10, 12)  # all that there was when it asked before

    assert followers.committed_end(12) == 10
    assert wanted(followers, 12, high_watermark=12) is None  # not before it has what is committed
    fetch(followers, 3, 12, 12)
    assert wanted(followers, 12, high_watermark=12) == (1, 2, 3)


def test_replica_joins_only_with_the_first_offset_of_the_leaders_epoch() -> None:
    """KIP-101: before that it may hold what this leader does not."""
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 10, 10)

    assert wanted(followers, 12, high_watermark=5, epoch_start=12) is None
    fetch(followers, 3, 12, 12)
    assert wanted(followers, 12, high_watermark=5, epoch_start=12) == (1, 2, 3)


def test_broker_that_is_not_live_does_not_join() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)

    followers.fetched(3, 10, 0, 10, 0, may_join=False)

    assert wanted(followers, 10) is None


def test_new_process_of_a_replica_that_was_about_to_join_begins_again() -> None:
    """KIP-903: what the process before it had is no word of what this one has."""
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    followers.fetched(3, 10, 0, 10, 0, may_join=True, broker_epoch=5)
    assert wanted(followers, 10) == (1, 2, 3)

    followers.fetched(3, 2, 0, 10, 0, may_join=True, broker_epoch=6)

    assert wanted(followers, 10) is None
    assert followers.committed_end(10) == 10, "nobody waits for it"
    followers.fetched(3, 10, 0, 10, 0, may_join=True, broker_epoch=6)
    assert followers.joined((1, 2, 3)) == ((3, 6),)


def test_new_process_does_not_keep_the_pace_of_the_one_before() -> None:
    """KIP-903: what that one was told the leader has, this one did not ask for."""
    followers = Followers(ENTRY, 0)
    followers.fetched(3, 4, 0, 10, 0, may_join=True, broker_epoch=5)
    fetch(followers, 2, 12, 12)

    followers.fetched(3, 10, 0, 12, 5, may_join=True, broker_epoch=6)

    assert followers.committed_end(12) == 12, "nobody waits for it yet"


def test_member_that_the_controller_added_after_a_long_absence_is_not_behind_at_once() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10, 90_000)
    followers.fetched(3, 10, 0, 10, 1_000, may_join=False)
    fetch(followers, 2, 12, 12, 90_000)

    followers.update(replace(ENTRY, partition_epoch=8, isr=(1, 2, 3)), 90_000)

    assert wanted(followers, 12, 90_000 + LAG_MS) is None
    assert wanted(followers, 12, 90_001 + LAG_MS) == (1, 2)


def test_leader_that_waits_for_nobody_is_not_met_with_silence() -> None:
    """It alone is in sync: no follower's silence says that others have another leader."""
    alone = Followers(replace(ENTRY, isr=(1,)), 0)
    followers = Followers(ENTRY, 100)

    assert not alone.are_silent(1_000)
    assert followers.are_silent(101)
    assert not followers.are_silent(100)


def test_member_of_a_proposal_counts_until_the_answer_is_known() -> None:
    """The maximal ISR: the block may be committed although nobody has told us."""
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 10, 10)
    followers.begin_change((1, 2, 3))
    followers.appended(10, 5)
    fetch(followers, 2, 12, 12, 5)

    assert wanted(followers, 12, 5 + LAG_MS + 1) is None  # one proposal at a time
    followers.drop_joining([3])
    assert followers.committed_end(12) == 10
    followers.end_change(7, 2_000, refused=False)  # in doubt
    assert followers.committed_end(12) == 10
    followers.end_change(7, 2_000, refused=True)
    assert followers.committed_end(12) == 12


def test_answer_to_a_proposal_of_an_older_partition_epoch_changes_nothing() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 10, 10)
    followers.begin_change((1, 2, 3))

    followers.end_change(6, 0, refused=True)

    assert followers.is_changing


def test_refused_proposal_waits_before_it_is_made_again() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 10, 10)
    followers.begin_change((1, 2, 3))
    followers.end_change(7, 100, refused=True)

    assert wanted(followers, 10, 100) is None
    assert wanted(followers, 10, 100 + REFUSED_WAIT_MS) == (1, 2, 3)


def test_new_partition_epoch_settles_proposals_and_forgets_what_was_refused() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10)
    fetch(followers, 3, 10, 10)
    followers.begin_change((1, 2, 3))

    followers.update(replace(ENTRY, partition_epoch=8, isr=(1, 2, 3)), 0)

    assert (followers.is_changing, followers.pending, followers.joining) == (
        False,
        frozenset(),
        frozenset(),
    )
    assert wanted(followers, 10) is None


def test_follower_is_behind_since_it_last_had_everything() -> None:
    """Checklist row 35."""
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10, 0)
    followers.appended(10, 50_000)  # idle until now: it had all

    assert wanted(followers, 11, 50_000 + LAG_MS) is None
    assert wanted(followers, 11, 50_000 + LAG_MS + 1) == (1,)


def test_follower_that_always_fetches_what_was_new_before_is_not_behind() -> None:
    followers = Followers(ENTRY, 0)
    end = 10
    fetch(followers, 2, end, end, 0)
    for now_ms in range(100, 5_000, 100):
        followers.appended(end, now_ms)
        end += 1
        fetch(followers, 2, end - 1, end, now_ms)

    assert wanted(followers, end, 5_000) is None


def test_silent_member_gets_a_whole_lag_time_under_a_new_leader() -> None:
    followers = Followers(ENTRY, 100_000)

    assert wanted(followers, 10, 100_000 + LAG_MS) is None
    assert wanted(followers, 10, 100_001 + LAG_MS) == (1,)


def test_member_that_the_controller_added_is_not_behind_at_once() -> None:
    followers = Followers(ENTRY, 0)
    fetch(followers, 2, 10, 10, 90_000)

    followers.update(replace(ENTRY, partition_epoch=8, isr=(1, 2, 3)), 90_000)

    assert wanted(followers, 10, 90_000) is None


def test_replica_that_the_reassignment_removed_is_waited_for_no_more() -> None:
    followers = Followers(ENTRY, 0)

    followers.update(replace(ENTRY, partition_epoch=8, replicas=(1, 3), isr=(1,)), 0)

    assert followers.committed_end(10) == 10
    assert followers.get(2) is None


STEPS = st.lists(
    st.tuples(st.sampled_from((2, 3)), st.integers(0, 3), st.integers(0, 400), st.booleans()),
    max_size=60,
)


@given(STEPS)
def test_whoever_is_proposed_has_everything_below_the_high_watermark(
    steps: list[tuple[int, int, int, bool]],
) -> None:
    followers = Followers(ENTRY, 0)
    ends = {2: 0, 3: 0}
    end = high_watermark = now_ms = 0
    entry = ENTRY
    for broker_id, appended, elapsed_ms, commits in steps:
        now_ms += elapsed_ms
        if appended:
            followers.appended(end, now_ms)
            end += appended
        # It asks for what it got before, and gets what there is now.
        fetch(followers, broker_id, ends[broker_id], end, now_ms)
        ends[broker_id] = end if commits else ends[broker_id]
        high_watermark = max(high_watermark, followers.committed_end(end))
        isr = wanted(followers, end, now_ms, high_watermark)
        if isr is None:
            continue
        followers.begin_change(isr)
        high_watermark = max(high_watermark, followers.committed_end(end))
        for member in set(isr) - {1} - set(entry.isr):
            follower = followers.get(member)
            assert follower is not None
            assert follower.end_offset >= high_watermark
        entry = replace(entry, isr=isr, partition_epoch=entry.partition_epoch + 1)
        followers.update(entry, now_ms)
