"""Who is bounded by which quota, and for how long it has to be quiet, in made-up time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.base.quotas import DEFAULT, PRODUCER, REQUEST, QuotaEntity, Quotas
from josefine_broker.engine.limits.quotas import (
    BUCKETS_MIN,
    BURST_SECONDS,
    THROTTLE_MS_MAX,
    QuotaKeeper,
)

RATE = 1_000.0
PRECEDENCE = (
    ("alice", "app"),
    ("alice", DEFAULT),
    ("alice", None),
    (DEFAULT, "app"),
    (DEFAULT, DEFAULT),
    (DEFAULT, None),
    (None, "app"),
    (None, DEFAULT),
)
"""As Kafka's manual has it, the first that is there counts."""


def keeper(quotas: Quotas) -> QuotaKeeper:
    made = QuotaKeeper()
    assert made.follow(quotas)
    return made


def of(user: str | None, client_id: str | None, rate: float = RATE) -> Quotas:
    return {QuotaEntity(user, client_id): {PRODUCER: rate}}


@pytest.mark.parametrize("first", range(len(PRECEDENCE)))
def test_most_special_quota_counts_and_is_shared_by_whom_it_names(first: int) -> None:
    left = PRECEDENCE[first:]
    quotas = {QuotaEntity(*who): {PRODUCER: 1.0 + n} for n, who in enumerate(left)}
    user, client_id = left[0]
    shared = (None if user is None else "alice", None if client_id is None else "app")

    assert keeper(quotas).bound(PRODUCER, "alice", "app") == (1.0, shared)


def test_client_without_a_quota_of_that_key_is_free() -> None:
    found = keeper(of("alice", "app"))

    for key, user, client_id in (
        (PRODUCER, "bob", "app"),
        (PRODUCER, "alice", "other"),
        (REQUEST, "alice", "app"),
    ):
        assert found.charge(key, user, client_id, 10**12, 0) == 0
    assert not QuotaKeeper().follow({})


def test_default_bounds_each_for_itself_and_a_name_all_its_clients_together() -> None:
    """A user's two client ids share; two users of a default do not."""
    alone, together = keeper(of(DEFAULT, None)), keeper(of("alice", None))

    assert alone.charge(PRODUCER, "alice", "a", 2 * RATE, 0) == 1_000
    assert alone.charge(PRODUCER, "bob", "a", RATE, 0) == 0
    assert together.charge(PRODUCER, "alice", "a", 2 * RATE, 0) == 1_000
    assert together.charge(PRODUCER, "alice", "b", RATE, 0) == 2_000


def test_what_was_saved_up_is_a_seconds_worth_and_debt_is_paid_by_time() -> None:
    found = keeper(of("alice", None))

    assert found.charge(PRODUCER, "alice", "", RATE * BURST_SECONDS, 10_000) == 0
    assert found.charge(PRODUCER, "alice", "", 500, 10_000) == 500
    assert found.charge(PRODUCER, "alice", "", 500, 10_500) == 500
    assert found.charge(PRODUCER, "alice", "", 0, 11_000) == 0
    assert found.charge(PRODUCER, "alice", "", RATE * BURST_SECONDS, 10**9) == 0


def test_nobody_is_quiet_for_longer_than_a_group_would_wait() -> None:
    found = keeper(of("alice", None))

    assert found.charge(PRODUCER, "alice", "", 10**12, 0) == THROTTLE_MS_MAX
    assert found.charge(PRODUCER, "alice", "", 0, THROTTLE_MS_MAX) == 0


def test_new_quota_forgets_the_debt_of_the_one_before() -> None:
    found = keeper(of("alice", None))
    assert found.charge(PRODUCER, "alice", "", 10**12, 0) == THROTTLE_MS_MAX

    found.follow(of("alice", None, 2 * RATE))

    assert found.charge(PRODUCER, "alice", "", RATE, 0) == 0


def test_percentage_is_of_one_thread() -> None:
    found = keeper({QuotaEntity("alice", None): {REQUEST: 10.0}})

    assert found.charge(REQUEST, "alice", "", 0.1, 0) == 0
    assert found.charge(REQUEST, "alice", "", 0.05, 0) == 500


def test_clients_with_names_of_the_day_are_not_kept_for_ever() -> None:
    found = keeper(of(None, DEFAULT))
    for number in range(10 * BUCKETS_MIN):
        found.charge(PRODUCER, "alice", f"app-{number}", RATE / 2, number * 10)

    assert len(found) <= BUCKETS_MIN


REQUESTS = st.lists(
    st.tuples(st.integers(0, 3_000), st.integers(0, 5_000), st.integers(0, 2)), max_size=30
)


@given(REQUESTS)
def test_clients_that_keep_quiet_as_told_stay_within_the_rate(
    requests: list[tuple[int, int, int]],
) -> None:
    """Three connections of one user, each of which does as it is told: of all that they did, not
    more than the saved second and one request each is above the rate."""
    found, now_ms, done = keeper(of("alice", None)), 0, 0
    quiet_until = [0, 0, 0]
    largest = 0
    for pause_ms, amount, connection in requests:
        now_ms += pause_ms
        if now_ms < quiet_until[connection]:
            continue
        done, largest = done + amount, max(largest, amount)
        quiet_ms = found.charge(PRODUCER, "alice", "", amount, now_ms)
        quiet_until[connection] = now_ms + quiet_ms
        allowed = RATE * (BURST_SECONDS + now_ms / 1_000)
        assert done <= allowed + 3 * largest + 1


@given(st.lists(st.integers(1, 5_000), min_size=20, max_size=40))
def test_client_that_goes_on_as_soon_as_it_may_has_its_rate(amounts: list[int]) -> None:
    found, now_ms = keeper(of("alice", None)), 0
    for amount in amounts:
        now_ms += found.charge(PRODUCER, "alice", "", amount, now_ms)

    paid_ms = (sum(amounts) - RATE * BURST_SECONDS) * 1_000 / RATE
    assert abs(now_ms - max(0, paid_ms)) <= len(amounts)
