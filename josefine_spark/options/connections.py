"""Cache of broker clients: one per broker address, direction and process, across tasks and batches.

PySpark reuses its workers, so a task mostly finds an open connection. A client whose operation
failed in any way is dropped and closed: the next one starts from the bootstrap servers.
"""

import os

from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_spark.options.options import Connection

_Key = tuple[int, Connection, bool]
_clients: dict[_Key, BlockingClient] = {}
"""The key has the process id, because workers are forks and a socket must have one owner. It has
the direction, because a task that reads one topic and writes another would otherwise delay its
writes by the long poll of its reads."""


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
        # Another thread may have created one in the meantime; this one has not opened a socket.
        client = _clients.setdefault(key, client)
    return client


def drop_client(connection: Connection, *, writing: bool = False) -> None:
    """Close the client and drop it from the cache; this ends a wait of another thread in it."""
    client = _clients.pop((os.getpid(), connection, writing), None)
    if client is not None:
        client.close()
