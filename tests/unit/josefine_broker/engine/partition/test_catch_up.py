"""Whom a leader in doubt asks, and for whom it waits."""

import pytest

from josefine_broker.base.ids import LeaderEpoch
from josefine_broker.engine.partition.catch_up import RETRY_MS, CatchUp, Offer

ALIVE = frozenset((1, 2))


def asking(*, waits_for_all: bool = False) -> CatchUp:
    return CatchUp(LeaderEpoch(3), waits_for_all=waits_for_all)


def test_each_replica_is_asked_once_in_order() -> None:
    catch_up = asking()

    assert catch_up.choose((2, 3)) == 2
    catch_up.has_no_more(2)
    assert catch_up.choose((2, 3)) == 3
    catch_up.has_no_more(3)
    assert catch_up.choose((2, 3)) is None
    assert catch_up.end_round(ALIVE, 0) is None
    assert catch_up.is_over


def test_after_progress_all_are_asked_again() -> None:
    catch_up = asking()
    catch_up.has_no_more(2)

    catch_up.moved()

    assert catch_up.choose((2, 3)) == 2


@pytest.mark.parametrize(
    ("silent", "waits_for_all", "is_over"),
    [(2, False, False), (3, False, True), (3, True, False)],
    ids=["alive", "down", "down, and the only one that may have the rest"],
)
def test_silent_replica_is_waited_for_while_it_is_alive(
    silent: int, waits_for_all: bool, is_over: bool
) -> None:
    catch_up = asking(waits_for_all=waits_for_all)
    catch_up.silent(silent)

    assert catch_up.end_round(ALIVE, 1_000) is None

    assert catch_up.is_over is is_over
    assert is_over or catch_up.retry_at_ms == 1_000 + RETRY_MS
    assert catch_up.choose((silent,)) == silent, "asked again in the next round"


def test_batches_of_the_latest_leader_epoch_are_taken_once_nobody_is_waited_for() -> None:
    catch_up = asking()
    catch_up.offers(2, Offer(LeaderEpoch(1)))
    catch_up.offers(3, Offer(LeaderEpoch(2)))
    catch_up.silent(1)

    assert catch_up.end_round(ALIVE, 0) is None
    assert catch_up.choose((2, 3, 1)) == 1, "the others are not asked again"
    catch_up.has_no_more(1)

    assert catch_up.end_round(ALIVE, 0) == 3
    assert not catch_up.is_over


def test_offer_of_a_replica_that_has_become_silent_is_void() -> None:
    catch_up = asking()
    catch_up.offers(3, Offer(LeaderEpoch(2)))

    catch_up.silent(3)

    assert catch_up.end_round(ALIVE, 0) is None


def test_operator_may_end_the_wait_for_silent_replicas() -> None:
    catch_up = asking()
    catch_up.offers(3, Offer(LeaderEpoch(2)))
    catch_up.silent(1)

    catch_up.waits_for_nobody = True

    assert catch_up.end_round(ALIVE, 0) == 3


def test_what_is_taken_ends_where_the_first_replica_has_another_epoch() -> None:
    catch_up = CatchUp(LeaderEpoch(7), waits_for_all=False)
    catch_up.offers(1, Offer(LeaderEpoch(1), end_offset=20))
    catch_up.offers(2, Offer(LeaderEpoch(1), end_offset=12))
    catch_up.offers(3, Offer(LeaderEpoch(0), end_offset=5))

    assert catch_up.compared_to(LeaderEpoch(1)) == 12
    assert catch_up.compared_to(LeaderEpoch(2)) == 0
