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

    def look(self) -> Topic: ...

    def topic_id(self) -> str: ...

    def stable_ends(self, partitions: Mapping[Any, int]) -> ByPartition: ...

    def fetch(self, positions: ByPartition, wait_ms: int) -> list[Read]: ...


class File(Protocol):
    """A new data file. `data_file.DataFile`."""

    rows: int
    bytes: int
    """Once it is closed."""

    def add(self, rows: Any) -> None: ...

    @property
    def size(self) -> int: ...

    def close(self, at_ms: int) -> Any: ...

    def discard(self) -> None: ...


class Store(Protocol):
    """One table with one chain. `delta_table.ChainedTable`."""

    def load(self) -> Found: ...

    def others(self) -> list[OtherChain]: ...

    def take_over(self, other: OtherChain) -> None: ...

    @property
    def is_there(self) -> bool: ...

    def ensure(self, schema: Any) -> None: ...

    def check(self, schema: Any) -> None: ...

    def commit(
        self,
        files: Sequence[Any],
        commit: Commit,
        schema: Any,
        more: Mapping[str, Any],
        at: Callable[[str], None],
    ) -> None: ...

    def files_and_bytes(self) -> tuple[int, int]: ...

    def compact(self, file_bytes: int, at_ms: int) -> None: ...

    def vacuum(self, retention_ms: int, within_ms: int) -> tuple[int, bool]: ...


OpenFile = Callable[[Any, Any], File]
"""Opens a new file of a store for rows of a schema."""
