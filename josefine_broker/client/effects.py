"""The effects that an operation yields to its shell, and the results it is resumed with. Values.

An operation is a generator: it yields an `Exchange` (requests to send, answers to wait for) or a
`Pause`, and is resumed with `Resumed`. So retries, routing and deadlines are decided in one place,
tested without a socket, and shared by the blocking and the asyncio shell.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from josefine_broker.base.errors import KafkaError

T = TypeVar("T")

ANY_BROKER = -1
"""Any connected broker, otherwise the first of the bootstrap list that answers."""

CONTROLLER = -2
"""The controller in the metadata, otherwise any broker: brokers forward in KRaft."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request to one broker (a broker id, ANY_BROKER or CONTROLLER)."""

    node: int
    api_key: int
    request: Any
    wants_response: bool = True
    """False for a produce request with acks=0: Kafka sends nothing back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """Send every call, then wait for every answer, until `deadline_ms` (monotonic)."""

    calls: tuple[Call, ...]
    deadline_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Do nothing until `until_ms` (monotonic)."""

    until_ms: int


@dataclass(frozen=True, slots=True)
class Unanswered:
    """In place of a response: no connection, a lost one, or the deadline."""

    error: KafkaError


@dataclass(frozen=True, slots=True)
class Resumed:
    """Monotonic time now, and one response or `Unanswered` per call of the exchange, in order."""

    now_ms: int
    replies: tuple[Any, ...] = ()


Effect: TypeAlias = Exchange | Pause
Operation: TypeAlias = Generator[Effect, Resumed, T]
