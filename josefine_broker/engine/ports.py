"""The ports of request handlers to the world, as protocols; the only implementations here run in
line.

`LogPort`, the data path's port, is in `engine/hosted.py`; time is `base.ports.Clock`.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.hosted import Buffer, HostedPartition, SearchPort
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.metadata.topic_config import TopicSettings
from josefine_broker.engine.partition.fetch_session import Rng

T = TypeVar("T")


class WorkPort(Protocol):
    """A runner of long jobs outside the broker's thread."""

    def __call__(
        self,
        job: Callable[[Callable[[], None]], T],
        is_wanted: Callable[[], bool],
        done: Callable[[T | None], None],
        /,
    ) -> None:
        """`job` runs elsewhere and gets a `breathe` to call, which lets other work run and raises
        KafkaError when the job is no longer wanted. `done` is called on the broker's thread, later
        or at once; with None if the job failed with an error of its own.

        Raises KafkaError when too many jobs are waiting."""
        ...


def work_at_once(
    job: Callable[[Callable[[], None]], T],
    is_wanted: Callable[[], bool],
    done: Callable[[T | None], None],
) -> None:
    """Run the job in line, for tests and the simulator."""
    done(job(lambda: None))


class LogsPort(Protocol):
    """The logs of this broker, provided by the composition root."""

    def open(
        self, tp: TopicPartition, topic_id: UUID, settings: TopicSettings, leader_epoch: int
    ) -> HostedPartition:
        """Open or create the log, recovered, with its producer state and leader epochs. The image
        is at `leader_epoch`: the log must not have a newer one."""
        ...

    def configure(self, tp: TopicPartition, config: LogConfig) -> None:
        """Apply changed settings of the topic."""
        ...

    def delete(self, tp: TopicPartition) -> None:
        """Close the log of a removed replica and delete its files."""
        ...

    def remove_strays(self, keep: Collection[tuple[str, int]]) -> None:
        """Remove partitions on disk that the first image does not assign to this broker."""
        ...

    def store_epochs(self, tp: TopicPartition) -> None:
        """Store the partition's changed leader epochs, soon and before any snapshot."""
        ...

    def is_complete(self, tp: TopicPartition) -> None:
        """Forget that the log may lack records: the others have none that it lacks."""
        ...


class RaftPort(Protocol):
    """The receiver of metadata changes, as block payloads; `engine/proposing.py` is the caller. The
    answer is the applied block; a failure is the deadline."""

    def propose(self, payload: bytes, deadline_ms: int) -> object: ...


class QuorumMember(NamedTuple):
    """One member of the metadata's Raft; -1 for what this broker does not know."""

    broker_id: int
    log_end_height: int = -1
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1
    """Wall clock time, as in Kafka's response."""


class QuorumView(NamedTuple):
    """The metadata's Raft as this broker sees it: complete on the leader, partial elsewhere."""

    leader_id: int
    term: int
    commit_height: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...] = ()


class QuorumPort(Protocol):
    """The quorum that decides on metadata (KIP-595)."""

    def describe(self) -> QuorumView: ...

    def remove_voter(self, broker_id: int) -> bool:
        """As the leader, start to remove a voter; False: not possible now."""
        ...


class ForwardPort(Protocol):
    """A client for other brokers, to forward a request."""

    def __call__(
        self,
        broker_id: int,
        api_key: int,
        request: Any,
        deadline_ms: int,
        on_answer: Callable[[Any | None], None],
        /,
    ) -> None:
        """`on_answer` is called later, once; with None when there is no answer."""
        ...


class ArchivePort(Protocol):
    """The records of archived topics below the local log start."""

    def read(
        self, tp: TopicPartition, hosted: HostedPartition, offset: int, bytes_max: int
    ) -> Sequence[Buffer] | None:
        """Whole batches from `offset` on; empty: there are none up to the local start; None: not
        yet, and a waiting fetch is woken then. Raises KafkaError."""
        ...

    def has_news(self, tp: TopicPartition, hosted: HostedPartition, offset: int) -> bool:
        """Whether a read would have an outcome now."""
        ...

    def search(
        self, tp: TopicPartition, hosted: HostedPartition, timestamp_ms: int
    ) -> SearchPort | None:
        """The search for the first record that is not older, in archive and log."""
        ...

    def epoch_end(
        self, tp: TopicPartition, hosted: HostedPartition, epoch: int
    ) -> Callable[[], tuple[int, int] | None]:
        """The question, to be asked outside the broker's thread, for the largest archived leader
        epoch up to this one below the local start, and for its end: (epoch, end offset); None: no
        record has a later one. It raises KafkaError."""
        ...

    def start(self, tp: TopicPartition, hosted: HostedPartition) -> int | None:
        """The first offset of archive and log together; None: not known yet."""
        ...


class Gravity(Enum):
    """The severity of an event for operators."""

    INFO = "info"  # for information
    WARNING = "warning"  # may need attention
    ERROR = "error"  # needs attention


class TellPort(Protocol):
    """A log for operators, written at once: a constant message and fields, never payload bytes."""

    def __call__(
        self, message: str, /, *, gravity: Gravity = Gravity.INFO, **fields: object
    ) -> None: ...


def tell_nobody(message: str, /, *, gravity: Gravity = Gravity.INFO, **fields: object) -> None:
    """Drop the event, for tests and the simulator."""


def archive_unread(tp: TopicPartition) -> KafkaError:
    """For tests, and brokers that log nothing."""
    return KafkaError(ErrorCode.kafka_storage_error, f"{tp}: no archive reader")


def nothing_archived(tp: TopicPartition) -> int:
    """For tests, and brokers whose archives are not asked for."""
    return 0


@dataclass(slots=True, kw_only=True)
class Ports:
    """The ports that handlers use. All but the last six are set from the beginning."""

    rng: Rng
    logs: LogsPort
    raft: RaftPort
    quorum: QuorumPort | None = None
    """None: no quorum is known (a handler that runs without Raft)."""
    why_no_controller: Callable[[], str] = str
    """Why there is no controller now, as a sentence; empty while there is one."""
    work: WorkPort = work_at_once
    """For jobs that take longer than a few milliseconds. Written by `node.py`."""
    validation: WorkPort = work_at_once
    """For produced batches that take long to validate, one after another. Written by `node.py`."""
    tell: TellPort = tell_nobody
    """Events of a log are written when they happen, also by a broker that ends at that moment.
    Written by `node.py`."""
    archive: ArchivePort | None = None
    """None: nothing below the local log start can be read. Written by
    `compose/archives.py`."""
    no_archive: Callable[[TopicPartition], KafkaError] = archive_unread
    """The error of such a read without `archive`. Written by `compose/archives.py`."""
    archived_end: Callable[[TopicPartition], int] = nothing_archived
    """The end of what the archive of a partition led here has, as far as its writer has reported;
    0: nothing that is known. Written by `compose/archives.py`."""
    forward: ForwardPort | None = None
    """None: no other broker can be reached. Written by `node.py`: it reads addresses in the image.
    """
