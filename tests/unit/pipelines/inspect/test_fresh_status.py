"""Whether a sink's target of freshness is held."""

from __future__ import annotations

import pytest

from josefine_cli.pipeline.status import _state
from pipelines.inspect.status import SinkStatus


@pytest.mark.parametrize(
    ("lag_ms", "fresh_ms", "is_fresh", "state"),
    [
        (30_000, 30_000, True, "ok"),
        (30_001, 30_000, False, "not fresh"),
        (None, 30_000, None, "ok"),
        (10**9, None, None, "ok"),
    ],
)
def test_a_target_is_held_up_to_its_own_age(lag_ms, fresh_ms, is_fresh, state):
    found = SinkStatus(sink="s", table="t", lag_ms=lag_ms, fresh_ms=fresh_ms)

    assert (found.is_fresh, found.to_json()["is_fresh"]) == (is_fresh, is_fresh)
    assert _state(found) == state
