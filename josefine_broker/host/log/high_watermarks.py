"""The checkpoint file of the replicas' high watermarks, for the start after a crash.

Rules: a stale value is harmless (a leader moves past it when its followers fetch, a follower when
its leader answers). A value past the log's end proves that the log lost records. A partition in the
file without a directory is missing: only logs with records are listed, and the file is renamed in
the parent directory of the logs, so it is never durable before they are. Without the file a lost
log cannot be distinguished from one that was never written, so it is created as soon as there is a
broker. The file has a version and a checksum and is replaced atomically.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from struct import Struct
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.host.disk.files import read_checked, write_checked

FILE = "high-watermarks.checkpoint"
KIND, VERSION = 5, 1
_ENTRY = Struct("<16siq")

log = logging.getLogger(__name__)

Key = tuple[UUID, int]


class HighWatermarks:
    """The values of the last checkpoint, and the next one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stored = b""
        self._known: dict[Key, int] = {}
        self.is_there = False
        """The file was readable when this process started, or was written since."""
        try:
            stored = read_checked(files, FILE, KIND, VERSION)
            self.is_there = stored is not None
            self._stored = stored or b""
            self._known = {
                (UUID(bytes=topic_id), index): offset
                for topic_id, index, offset in _ENTRY.iter_unpack(
                    self._stored[: len(self._stored) // _ENTRY.size * _ENTRY.size]
                )
            }
        except CorruptData as error:
            log.warning("high watermarks unknown", extra={"reason": error})

    def get(self, topic_id: UUID, index: int) -> int:
        """The stored value of one partition, 0 if it has none."""
        return self._known.get((topic_id, index), 0)

    def __iter__(self) -> Iterator[Key]:
        """The partitions in the last checkpoint."""
        return iter(self._known)

    def __contains__(self, key: Key) -> bool:
        return key in self._known

    def due(self, current: Mapping[Key, int]) -> Callable[[], None] | None:
        """The job that stores `current`; None when the file has these values already."""
        self._known = dict(current)
        payload = b"".join(
            _ENTRY.pack(topic_id.bytes, index, offset)
            for (topic_id, index), offset in current.items()
        )
        if payload == self._stored and self.is_there:
            return None
        return lambda: self._store(payload)

    def _store(self, payload: bytes) -> None:
        """Raises OSError."""
        write_checked(self._files, FILE, KIND, VERSION, payload)
        self._stored = payload
        self.is_there = True
