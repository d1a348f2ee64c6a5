"""Values decoded from elsewhere are what their classes declare, or are refused."""

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from josefine_broker.core.changes import RegisterBroker
from josefine_broker.core.log_completeness import Completeness, LogClaims
from josefine_broker.core.typed import is_typed

REGISTER = RegisterBroker(broker_id=1, incarnation="a", endpoints=())


@pytest.mark.parametrize(
    ("logs", "is_so"),
    [
        (None, True),
        (LogClaims(), True),
        (LogClaims(logs={(UUID(int=1), 0): Completeness.MISSING}), True),
        (LogClaims(logs={(UUID(int=1), "0"): Completeness.MISSING}), False),  # type: ignore[dict-item]
        (LogClaims(logs={(UUID(int=1), 0): "missing"}), False),  # type: ignore[dict-item]
        (LogClaims(default="missing"), False),  # type: ignore[arg-type]
        ({}, False),
    ],
)
def test_what_a_registration_says_of_logs_is_typed(logs: Any, is_so: bool) -> None:
    assert is_typed(replace(REGISTER, logs=logs), RegisterBroker) is is_so
