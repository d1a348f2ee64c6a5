"""The one broker that clients meet: ours, or the oracle (JOSEFINE_COMPAT_WITH=apache-kafka)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Any

from tests.support.apache_kafka import ApacheKafka
from tests.support.broker import BrokerProcess

WITH_APACHE_KAFKA = os.environ.get("JOSEFINE_COMPAT_WITH") == "apache-kafka"
Broker = BrokerProcess | ApacheKafka
LEARNS_S = 30


def one(directory: Path, **overrides: object) -> Broker:
    """Started; `overrides` are configuration keys of ours."""
    return (ApacheKafka if WITH_APACHE_KAFKA else BrokerProcess)(directory, **overrides)


def told(ask: Callable[[], Any], wanted: Any) -> None:
    """What admins change is there when ours has answered; the oracle's broker hears of it soon."""
    deadline = monotonic() + LEARNS_S
    while (found := ask()) != wanted and WITH_APACHE_KAFKA and monotonic() < deadline:
        pass
    assert found == wanted


async def told_async(ask: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """The same of what is waited for."""
    deadline = monotonic() + LEARNS_S
    while (found := await ask()) != wanted and WITH_APACHE_KAFKA and monotonic() < deadline:
        pass
    assert found == wanted
