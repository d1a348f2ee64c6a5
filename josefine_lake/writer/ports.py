"""What the writer of a table needs of the world: a topic, tables, files and a clock.

Each has a real implementation and one in memory, in which tests let it fail at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from josefine_lake.writer.start import Found, Topic
from josefine_lake.writer.topic_reader import Read
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.exactly_once.offset_chain import Commit
from pipelines.exactly_once.other_chains import OtherChain


class Log(Protocol):
    """One topic. `topic_reader.TopicReader`."""

    def look(self) -> Topic:
        """The topic's id, and the start and end offset of each partition. Raises KafkaError."""
        ...

    def topic_id(self) -> str:
        """The topic's id in the last answers, without a request; empty: unknown."""
        ...

    def stable_ends(self, partitions: Mapping[Any, int]) -> ByPartition:
        """The last stable offset of each partition. Raises KafkaError."""
        ...

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]:
        """Committed records from these offsets on; empty after `wait_ms` without one. Raises
        KafkaError, CorruptData, OutOfRangeError."""
        ...


class File(Protocol):
    """A new data file. `data_file.DataFile`."""

    rows: int
    bytes: int
    """Once it is closed."""

    def add(self, rows: Any) -> None:
        """Add an Arrow record batch. Raises OSError."""
        ...

    @property
    def size(self) -> int:
        """Bytes so far, estimated."""
        ...

    def close(self, at_ms: int) -> Any:
        """Write the rest and sync; returns the action that adds the file to its table, with
        `at_ms` (wall clock) as its time. Raises OSError."""
        ...

    def discard(self) -> None:
        """Close and remove the file; never fails."""
        ...


class Store(Protocol):
    """One table with one chain. `delta_table.ChainedTable`. Each call that reads or writes raises
    DeltaError and OSError if the storage fails."""

    def load(self) -> Found:
        """Read the chain's newest commit; None: it has none."""
        ...

    def others(self) -> list[OtherChain]:
        """The chains of other names in this table, as of `load`."""
        ...

    def take_over(self, other: OtherChain) -> None:
        """Continue the chain of another name. Raises StoppedError."""
        ...

    @property
    def is_there(self) -> bool:
        """Whether the table exists, as of the last `load` or commit."""
        ...

    def ensure(self, schema: Any) -> None:
        """Create the table, or add the columns that it lacks. Raises MisfitError for a table that
        does not take these columns."""
        ...

    def check(self, schema: Any) -> None:
        """Change nothing. Raises MisfitError for a table that `ensure` would refuse."""
        ...

    def commit(
        self,
        files: Sequence[Any],
        commit: Commit,
        schema: Any,
        more: Mapping[str, Any],
        at: Callable[[str], None],
    ) -> None:
        """Commit files and offsets at once; `more` is added to the commit's metadata, and `at` is
        called at each failpoint. Raises StoppedError. After an error of the storage nothing is
        committed, or it is not durable."""
        ...

    def files_and_bytes(self) -> tuple[int, int]:
        """The number of data files of the newest version, and their bytes."""
        ...

    def compact(self, file_bytes: int, at_ms: int) -> None:
        """Rewrite small files into files of about `file_bytes`: the same rows."""
        ...

    def vacuum(self, retention_ms: int, within_ms: int) -> tuple[int, bool]:
        """Delete files that no version of the last `retention_ms` needs, for at most `within_ms`:
        how many, and whether all of them."""
        ...


OpenFile = Callable[[Any, Any], File]
"""Opens a new file of a store for rows of a schema."""
