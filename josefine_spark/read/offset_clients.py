"""The client that is asked for the offsets of topics, by who reads below the local log start.

Light imports: planners and commands that only look load this module.
"""

from __future__ import annotations

from typing import Any

from josefine_broker.client.io_blocking import BlockingClient
from josefine_spark.options.options import BelowLocalStart, Connection
from josefine_spark.read.local_start import LocalClient


def offsets_client(connection: Connection, below: BelowLocalStart, client: BlockingClient) -> Any:
    """`client`, with the offsets that a read by this choice finds."""
    if below is BelowLocalStart.AUTO:
        from josefine_spark.read.archive_files import ArchivedClient

        return ArchivedClient(connection)
    return LocalClient(client) if below is BelowLocalStart.OFF else client
