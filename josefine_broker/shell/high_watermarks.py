"""The high watermarks of all replicas in one file, for the start after a crash.

Rules: a stale value is harmless (a leader passes it when its followers fetch, a follower when its
leader answers), a value past the log is cut by the reader; so a damaged file is as good as none.
The file has a version and a checksum and is replaced atomically.
"""

import logging
from collections.abc import Callable, Mapping
from struct import Struct
from uuid import UUID

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.shell.files import read_checked, write_checked

FILE = "high-watermarks.checkpoint"
KIND, VERSION = 5, 1
_ENTRY = Struct("<16siq")

log = logging.getLogger(__name__)

Key = tuple[UUID, int]


class HighWatermarks:
    """What the last checkpoint said, and the next one."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._stored = b""
        self._known: dict[Key, int] = {}
        try:
            self._stored = read_checked(files, FILE, KIND, VERSION) or b""
            self._known = {
                (UUID(bytes=topic_id), index): offset
                for topic_id, index, offset in _ENTRY.iter_unpack(
                    self._stored[: len(self._stored) // _ENTRY.size * _ENTRY.size]
                )
            }
        except CorruptData as error:
            log.warning("high watermarks unknown", extra={"reason": error})

    def get(self, topic_id: UUID, index: int) -> int:
        """That of one partition when it was last stored, 0 when it was not."""
        return self._known.get((topic_id, index), 0)

    def due(self, current: Mapping[Key, int]) -> Callable[[], None] | None:
        """The job that stores `current`; None when the file says it already."""
        self._known = dict(current)
        payload = b"".join(
            _ENTRY.pack(topic_id.bytes, index, offset)
            for (topic_id, index), offset in current.items()
        )
        if payload == self._stored:
            return None
        return lambda: self._store(payload)

    def _store(self, payload: bytes) -> None:
        """Raises OSError."""
        write_checked(self._files, FILE, KIND, VERSION, payload)
        self._stored = payload
