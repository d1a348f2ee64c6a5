"""Descriptors are divided once: every share is there, and together they never pass the limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.limits.descriptors import KEPT_BACK_MAX, LIMIT_MIN, UNLIMITED, divide


@given(st.integers(LIMIT_MIN, 1 << 21), st.integers(1, 1 << 20))
def test_shares_never_pass_the_limit_and_nobody_gets_nothing(limit: int, wanted: int) -> None:
    shares = divide(limit, wanted)

    assert shares.connections + shares.files + shares.kept_back == limit
    assert min(shares.connections, shares.files, shares.kept_back) > 0
    assert shares.connections <= wanted
    assert shares.files >= shares.connections


def test_a_large_limit_gives_connections_what_they_want_and_files_the_rest() -> None:
    shares = divide(20_000, 2_000)

    assert (shares.connections, shares.files) == (2_000, 20_000 - 2_000 - KEPT_BACK_MAX)
    assert shares.shortage == ""


def test_a_small_limit_is_shared_in_halves_and_says_what_is_missing() -> None:
    shares = divide(1_024, 2_000)

    assert (shares.connections, shares.files, shares.kept_back) == (384, 384, 256)
    assert "1024 open files leaves 384 client connections of the 2000" in shares.shortage
    assert divide(KEPT_BACK_MAX + 2 * 2_000, 2_000).shortage == ""  # as the sentence advises


def test_no_limit_is_a_large_one() -> None:
    assert divide(-1, 2_000).limit == UNLIMITED


def test_a_limit_that_no_broker_can_work_with_is_refused() -> None:
    with pytest.raises(ValueError, match=f"allows this process {LIMIT_MIN - 1} open files"):
        divide(LIMIT_MIN - 1, 1)
