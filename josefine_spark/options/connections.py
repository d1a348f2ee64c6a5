"""One client per broker address, direction and process, kept between tasks and batches.

PySpark reuses its workers, so a task mostly finds an open connection. A client whose operation
failed in any way is dropped and closed: the next one starts from the bootstrap servers.
"""

import os

from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_spark.options.options import Connection

_Key = tuple[int, Connection, bool]
_clients: dict[_Key, BlockingClient] = {}
"""By process id too: workers are forks, and a socket must have one owner. By direction too: a task
that reads one topic and writes another would wait with its rows for the long poll of its reader."""


def client_for(connection: Connection, *, writing: bool = False) -> BlockingClient:
    """The process's client for these brokers; opens nothing until it is used."""
    key = (os.getpid(), connection, writing)
    client = _clients.get(key)
    if client is None:
        client = BlockingClient(
            connection.bootstrap,
            client_id=connection.client_id,
            policy=Policy(request_timeout_ms=connection.request_timeout_ms),
            security=connection.security,
        )
        # Another thread may have made one meanwhile; this one has opened nothing.
        client = _clients.setdefault(key, client)
    return client


def drop_client(connection: Connection, *, writing: bool = False) -> None:
    """Close and forget the client; a wait of another thread in it ends."""
    client = _clients.pop((os.getpid(), connection, writing), None)
    if client is not None:
        client.close()
