"""One client per broker address and process, kept between tasks and batches.

PySpark reuses its workers, so a task mostly finds an open connection. A client whose operation
failed in any way is dropped and closed: the next one starts from the bootstrap servers.
"""

import os

from josefine_broker.client.io_blocking import BlockingClient, Policy
from josefine_spark.options import Connection

_clients: dict[tuple[int, Connection], BlockingClient] = {}
"""By process id too: workers are forks, and a socket must have one owner."""


def client_for(connection: Connection) -> BlockingClient:
    """The process's client for these brokers; opens nothing until it is used."""
    key = (os.getpid(), connection)
    client = _clients.get(key)
    if client is None:
        client = BlockingClient(
            connection.bootstrap,
            client_id=connection.client_id,
            policy=Policy(request_timeout_ms=connection.request_timeout_ms),
        )
        _clients[key] = client
    return client


def drop_client(connection: Connection) -> None:
    """Close and forget the client; a wait of another thread in it ends."""
    client = _clients.pop((os.getpid(), connection), None)
    if client is not None:
        client.close()
