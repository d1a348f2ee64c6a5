"""When a node starts an election, and whom it believes to lead."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from raft.candidacy import Candidacy

TIMEOUT_MS = 1000
SEEDS = st.integers(0, 10_000)


def candidacy(seed: int, now_ms: int = 0) -> Candidacy:
    return Candidacy(TIMEOUT_MS, Random(seed), now_ms, vote=None)


@given(SEEDS)
def test_a_timeout_is_between_one_and_two_of_its_length(seed: int) -> None:
    one = candidacy(seed)

    one.reset(50)

    assert 50 + TIMEOUT_MS <= one.due_ms < 50 + 2 * TIMEOUT_MS


@given(SEEDS)
def test_a_candidate_asks_again_after_a_quarter_to_half_of_it(seed: int) -> None:
    one = candidacy(seed)

    one.retry_soon(50)

    assert 50 + TIMEOUT_MS // 4 <= one.due_ms < 50 + TIMEOUT_MS // 2


@given(SEEDS)
def test_a_lost_leader_is_replaced_within_a_tenth_and_hurries_once(seed: int) -> None:
    one = candidacy(seed)
    one.hear_leader(0)

    one.lose_leader(20)
    due_ms = one.due_ms
    one.lose_leader(20)

    assert 20 <= due_ms < 20 + TIMEOUT_MS // 10
    assert one.due_ms == due_ms
    assert not one.hears_leader(20)


@given(SEEDS)
def test_a_loss_never_postpones_an_election(seed: int) -> None:
    one = candidacy(seed)
    one.due_ms = 21

    one.lose_leader(20)

    assert one.due_ms <= 21


def test_a_leader_is_heard_for_one_timeout() -> None:
    one = candidacy(1)
    assert not one.hears_leader(0)

    one.hear_leader(10)

    assert one.hears_leader(10 + TIMEOUT_MS - 1)
    assert not one.hears_leader(10 + TIMEOUT_MS)


def test_answers_are_awaited_shortly_only_after_a_loss_until_a_leader_is_heard() -> None:
    one = candidacy(1)

    one.lose_leader(0)
    one.await_answers(0)
    assert one.due_ms < TIMEOUT_MS // 2
    one.hear_leader(0)
    one.await_answers(0)
    assert one.due_ms >= TIMEOUT_MS
