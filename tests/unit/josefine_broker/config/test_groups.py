"""Bounds of consumer groups in the configuration that exclude each other."""

import pytest
from pydantic import ValidationError

from josefine_broker.config.groups import GroupSection, OffsetsSection


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"min_session_timeout_ms": 7, "max_session_timeout_ms": 6}, "min_session_timeout_ms must "
         "not be above max_session_timeout_ms, got 7 and 6"),
        ({"consumer_heartbeat_interval_ms": 9, "consumer_session_timeout_ms": 9},
         "consumer_heartbeat_interval_ms must be below consumer_session_timeout_ms, got 9 and 9"),
        ({"consumer_migration_policy": "both"}, "'disabled', 'upgrade', 'downgrade'"),
        ({"max_size": 0}, "max_size"),
    ],
)  # fmt: skip
def test_a_pair_that_no_member_could_satisfy_is_refused_with_both(values, why: str) -> None:
    with pytest.raises(ValidationError) as caught:
        GroupSection(**values)

    assert why in str(caught.value)


def test_equal_session_timeouts_and_the_defaults_are_good() -> None:
    assert GroupSection(min_session_timeout_ms=7, max_session_timeout_ms=7).max_size is None
    assert OffsetsSection().retention_ms == 7 * 24 * 3_600_000
