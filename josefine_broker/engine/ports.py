"""Ports: what handlers reach of the world, as protocols. No implementation but the one in line.

`LogPort`, the one of the data path, is in `engine/hosted.py`; time is `base.ports.Clock`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import HostedPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.partition.fetch_session import Rng

T = TypeVar("T")


class WorkPort(Protocol):
    """Long work, beside the broker's thread."""

    def __call__(
        self,
        job: Callable[[Callable[[], None]], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
        /,
    ) -> None:
        """`job` runs elsewhere, with the `breathe` it is to call: that lets others run, and raises
        KafkaError when nobody wants the work any more. `done` comes later, or at once, on the
        broker's thread; with None where the job failed on an error of its own.

        Raises KafkaError when too much work is waiting."""
        ...


def work_at_once(
    job: Callable[[Callable[[], None]], T],
    is_wanted: Callable[[], bool],
    done: Callable[[T | None], None],
) -> None:
    """In line: for tests and the simulator."""
    done(job(lambda: None))


class LogsPort(Protocol):
    """The logs of this broker, as the composition root offers them."""

    def open(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings, leader_epoch: int
    ) -> HostedPartition:
        """Open or create the log, recovered, with what recovery learnt of producers and epochs. The
        image is at that leader epoch: none of the log's may be newer."""
        ...

    def configure(self, tp: TopicPartition, config: LogConfig) -> None:
        """The topic's settings changed."""
        ...

    def delete(self, tp: TopicPartition) -> None:
        """The replica is gone from here: close and remove its files."""
        ...

    def remove_strays(self, keep: Collection[tuple[str, int]]) -> None:
        """The image was followed for the first time: other partitions on disk are nobody's."""
        ...

    def store_epochs(self, tp: TopicPartition) -> None:
        """The partition's leader epochs changed: store them, soon and before any snapshot."""
        ...


class RaftPort(Protocol):
    """Where metadata changes go, as payloads of blocks: `engine/proposing.py` hands them here.
    The answer is the applied block; a failure is the deadline."""

    def propose(self, payload: bytes, deadline_ms: int) -> object: ...


class QuorumMember(NamedTuple):
    """One member of the metadata's Raft; -1 where this broker does not know."""

    broker_id: int
    log_end_height: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """Wall clock, as Kafka tells these two."""


class QuorumView(NamedTuple):
    """The metadata's Raft as this broker sees it: all of it on the leader, less elsewhere."""

    leader_id: int
    term: int
    commit_height: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...] = ()


class QuorumPort(Protocol):
    """Who decides on metadata (KIP-595)."""

    def describe(self) -> QuorumView: ...

    def remove_voter(self, broker_id: int) -> bool:
        """Begin to take a vote away, as the leader; False: not now."""
        ...


class ForwardPort(Protocol):
    """Asks another broker what a client asked here."""

    def __call__(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any | None], None],
        /,
    ) -> None:
        """`on_answer` comes later, once: with None when there is no answer."""
        ...


class Gravity(Enum):
    """How much it matters to people."""

    INFO = "info"  # for who looks
    WARNING = "warning"  # perhaps somebody should look
    ERROR = "error"  # somebody must


class TellPort(Protocol):
    """Tells people what happened, at once: a constant message and its fields, never payload."""

    def __call__(
        self, message: str, /, *, gravity: Gravity = Gravity.INFO, **fields: object
    ) -> None: ...


def tell_nobody(message: str, /, *, gravity: Gravity = Gravity.INFO, **fields: object) -> None:
    """For tests and the simulator."""


@dataclass(slots=True, kw_only=True)
class Ports:
    """The world as handlers reach it. All but the last four are there from the beginning."""

    rng: Rng
    logs: LogsPort
    raft: RaftPort
    quorum: QuorumPort | None = None
    """None: nothing is known of it (a handler without a Raft beside it)."""
    why_no_controller: Callable[[], str] = str
    """Why nobody decides now, as a sentence; empty while somebody leads."""
    work: WorkPort = work_at_once
    """Where what takes longer than a few milliseconds is done. Written by `node.py`."""
    validation: WorkPort = work_at_once
    """The same for produced batches that take long to validate: one after another. Written by
    `node.py`."""
    tell: TellPort = tell_nobody
    """What happened to a log is told when it does, also by a broker that ends at that moment.
    Written by `node.py`."""
    forward: ForwardPort | None = None
    """None: this broker reaches no other. Written by `node.py`: it reads addresses in the image."""
