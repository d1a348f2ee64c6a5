"""The first offset that brokers have themselves, and a client for which topics start there.

Light imports: planners and commands that only look load this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.io_blocking import EARLIEST, BlockingClient

EARLIEST_LOCAL = -4
"""ListOffsets asks for it by this number (KIP-405)."""


class LocalClient:
    """A client for which topics start where brokers have their own records."""

    def __init__(self, client: BlockingClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def list_offsets(
        self, wanted: Mapping[TopicPartition, int], isolation_level: int = 0
    ) -> dict[TopicPartition, Any]:
        """As the client's, never below the local log start. Raises KafkaError."""
        local = {tp: EARLIEST_LOCAL if at == EARLIEST else at for tp, at in wanted.items()}
        found = dict(self._client.list_offsets(local, isolation_level=isolation_level))
        times = [tp for tp, at in wanted.items() if at >= 0 and found[tp].offset >= 0]
        starts = self._client.list_offsets(dict.fromkeys(times, EARLIEST_LOCAL)) if times else {}
        for tp, start in starts.items():
            if found[tp].offset < start.offset:
                found[tp] = replace(found[tp], offset=start.offset)
        return found
