"""franz-go against our broker: what it administers. Groups and transactions are tested beside the
other clients', its records in `test_order.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.compat.foreign import franz

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def test_admin_creates_widens_configures_and_deletes_topics(
    bootstrap: str, make_topic: Callable[..., str]
) -> None:
    """Checklist row 21."""
    said = franz("admin", bootstrap, f"{make_topic()}-admin")

    assert said == {
        "again": True,
        "altered": True,
        "retention.ms": "654321",
        "partitions": 4,
        "deleted": True,
    }
