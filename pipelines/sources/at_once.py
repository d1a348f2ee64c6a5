"""A look at a source for a person who waits: brokers that do not answer are reported at once.

A run waits longer, since brokers may come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pipelines.base.errors import SetupError
from pipelines.model.pipeline import Source
from pipelines.model.security import security_of
from pipelines.sources.josefine import Topics, topics_of
from pipelines.sources.kinds import ANY_KIND

if TYPE_CHECKING:
    from josefine_broker.client.io_blocking import BlockingClient

BOOTSTRAP_TIMEOUT_MS = 2_000


def look_at_once(source: Source) -> Topics:
    """The offsets of a source's topics. Raises SetupError."""
    if source.local is not None:
        return ANY_KIND.look(source)
    with client_at_once(source) as client:
        return topics_of(client, source)


@contextmanager
def client_at_once(source: Source) -> Iterator[BlockingClient]:
    """A client for the block, whose errors become SetupErrors that name the source."""
    from josefine_broker.base.errors import KafkaError
    from josefine_broker.client.io_blocking import BlockingClient, Policy
    from josefine_spark.base.errors import OptionError

    where = f"source `{source.name}` at {source.bootstrap}"
    try:
        policy = Policy(bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS)
        security = security_of(source.security)
        with BlockingClient(source.bootstrap, policy=policy, security=security) as client:
            yield client
    except (OptionError, KafkaError, OSError, ValueError) as error:
        reason = error.message if isinstance(error, KafkaError) else str(error)
        raise SetupError(f"{where}: {reason}") from error
