"""A process has one client for the same brokers."""

from __future__ import annotations

from typing import Any

import pytest

from josefine_spark.options import connections
from josefine_spark.options.connections import client_for


def test_threads_that_ask_at_once_have_one_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second asks while the first one's is being made."""
    monkeypatch.setattr(connections, "_clients", {})
    found: list[Any] = []

    class Client:
        def __init__(self, *arguments: Any, **more: Any) -> None:
            if not found:
                found.append(self)
                found.append(client_for(connection))

    class Connection:
        bootstrap, client_id, request_timeout_ms, security = "a:1", "c", 1, None

    connection: Any = Connection()
    monkeypatch.setattr(connections, "BlockingClient", Client)

    first = client_for(connection)

    assert first is found[1] is client_for(connection)
