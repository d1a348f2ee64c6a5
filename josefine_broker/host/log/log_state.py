"""The state files of a partition, next to its segments: log start, leader epochs, producer
snapshots, and a recovery's losses that the cluster does not know yet.

Rules: each file is replaced atomically, with format version and checksum. `core` decides what they
mean; the log only keeps the bytes. A snapshot is named after the offset at which it is valid.
"""

import errno
from collections.abc import Callable
from struct import Struct
from threading import Lock

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.disk.files import read_checked, write_checked
from josefine_broker.host.disk.synced_mark import SyncedMark

KIND_LOG_START, KIND_LEADER_EPOCHS, KIND_PRODUCERS, KIND_COMPLETENESS, KIND_CLEANED = 1, 2, 3, 7, 8
KIND_POWER_LOST = 15
VERSION = 1

NEW_PARTITION_FILE = "partition.new.json"
"""A log's identity until any of the log must be durable."""

CHECKPOINT_SUFFIX = ".checkpoint"
LOG_START_FILE = f"log-start{CHECKPOINT_SUFFIX}"
LEADER_EPOCHS_FILE = f"leader-epochs{CHECKPOINT_SUFFIX}"
COMPLETENESS_FILE = f"completeness{CHECKPOINT_SUFFIX}"
CLEANED_FILE = f"cleaner{CHECKPOINT_SUFFIX}"
POWER_LOST_FILE = f"power-lost{CHECKPOINT_SUFFIX}"
SNAPSHOT_SUFFIX = ".snapshot"
SNAPSHOTS_KEPT = 2
"""The newest, and the one before in case the newest is damaged."""

_OFFSET = Struct("<q")
_NO_EPOCHS = LeaderEpochs().to_bytes(0)
"""The value of a missing checkpoint."""


class LogState:
    """Reads and writes the state files of one partition directory."""

    __slots__ = (
        "_directory",
        "_files",
        "_kept_epochs",
        "_lock",
        "_settle",
        "_stored_epochs",
        "snapshots_asked",
        "snapshots_stored",
        "synced",
    )

    def __init__(
        self, files: Files, directory: str, settle: Callable[[], None] | None = None
    ) -> None:
        """`settle` makes the directory itself durable."""
        self._files = files
        self._directory = directory
        self._settle = settle
        self._lock = Lock()
        self._kept_epochs: bytes | None = None
        self._stored_epochs = _NO_EPOCHS
        self.snapshots_asked = 0
        self.snapshots_stored = 0
        """Snapshots asked for that were stored or abandoned; counted by the flusher."""
        self.synced = SyncedMark(files, directory)

    def settle(self) -> None:
        """Call before anything in the directory is made durable. Raises OSError."""
        if self._settle is None:
            return
        with self._lock:  # the log's thread and the flusher's
            if self._settle is not None:
                self._settle()
                self._settle = None

    def abandon(self) -> None:
        """Release the files, and refuse to make anything durable for a log that never was: its
        name is free."""
        self.synced.close()
        with self._lock:
            if self._settle is not None:
                self._settle = _refuse

    @property
    def is_settled(self) -> bool:
        """Whether the directory is durable, and so may contain a proof that the log is."""
        return self._settle is None

    def log_start_offset(self) -> int:
        """The stored log start, 0 if there is none. Raises CorruptData."""
        data = read_checked(self._files, self._path(LOG_START_FILE), KIND_LOG_START, VERSION)
        return 0 if data is None else int(_OFFSET.unpack(data)[0])

    def store_log_start_offset(self, offset: int) -> None:
        payload = _OFFSET.pack(offset)
        path = self._path(LOG_START_FILE)
        self.settle()
        write_checked(self._files, path, KIND_LOG_START, VERSION, payload)

    def cleaned_to(self) -> int:
        """The offset that the log cleaner reached, if known; 0: everything is to be cleaned."""
        try:
            data = read_checked(self._files, self._path(CLEANED_FILE), KIND_CLEANED, VERSION)
        except (CorruptData, OSError):
            return 0
        return 0 if data is None else int(_OFFSET.unpack(data)[0])

    def store_cleaned_to(self, offset: int) -> None:
        """Raises OSError."""
        path = self._path(CLEANED_FILE)
        self.settle()
        write_checked(self._files, path, KIND_CLEANED, VERSION, _OFFSET.pack(offset))

    def forget_cleaned_to(self) -> None:
        """The log is about to be truncated below it. Durable once the directory is synced."""
        self._files.remove(self._path(CLEANED_FILE))

    def leader_epochs(self) -> bytes | None:
        """The last `store_leader_epochs` payload; None if there is none. Raises CorruptData."""
        path = self._path(LEADER_EPOCHS_FILE)
        stored = read_checked(self._files, path, KIND_LEADER_EPOCHS, VERSION)
        self._stored_epochs = _NO_EPOCHS if stored is None else stored
        return stored

    def store_leader_epochs(self, payload: bytes) -> None:
        path = self._path(LEADER_EPOCHS_FILE)
        self.settle()
        write_checked(self._files, path, KIND_LEADER_EPOCHS, VERSION, payload)
        self._stored_epochs = payload

    def completeness(self) -> Completeness:
        """The result stored by an earlier recovery; an unreadable file means the same as a readable
        one."""
        path = self._path(COMPLETENESS_FILE)
        try:
            stored = read_checked(self._files, path, KIND_COMPLETENESS, VERSION)
            return Completeness.COMPLETE if stored is None else Completeness(stored.decode())
        except (CorruptData, ValueError):
            return Completeness.SHORTENED

    def store_completeness(self, found: Completeness) -> None:
        """Raises OSError."""
        path = self._path(COMPLETENESS_FILE)
        write_checked(self._files, path, KIND_COMPLETENESS, VERSION, found.value.encode())

    def forget_completeness(self) -> None:
        """The cluster's metadata knows it now."""
        self._files.remove(self._path(COMPLETENESS_FILE))

    def power_lost(self) -> bool:
        """Whether an earlier start found damage that a power failure explains, and which was not
        repaired since. An unreadable file explains nothing."""
        path = self._path(POWER_LOST_FILE)
        try:
            return read_checked(self._files, path, KIND_POWER_LOST, VERSION) is not None
        except (CorruptData, OSError):
            return False

    def note_power_lost(self) -> None:
        """Raises OSError."""
        self.settle()
        write_checked(self._files, self._path(POWER_LOST_FILE), KIND_POWER_LOST, VERSION, b"")

    def forget_power_lost(self) -> None:
        """The log is whole."""
        self._files.remove(self._path(POWER_LOST_FILE))

    def keep_leader_epochs(self, payload: bytes) -> bool:
        """Keep a payload to be stored soon by `store_kept_epochs`; at the latest before a snapshot,
        because a replay starts after a snapshot and would miss the epochs of earlier batches. False
        when the checkpoint has this payload already."""
        self._kept_epochs = None if payload == self._stored_epochs else payload
        return self._kept_epochs is not None

    def store_kept_epochs(self) -> None:
        """Raises OSError; the payload is then kept."""
        payload = self._kept_epochs
        if payload is not None:
            self.store_leader_epochs(payload)
            if self._kept_epochs is payload:  # otherwise newer ones arrived meanwhile
                self._kept_epochs = None

    def snapshot_offsets(self) -> list[int]:
        """Offsets that have a snapshot file, ascending."""
        names = self._files.list(self._directory)
        stems = [name.removesuffix(SNAPSHOT_SUFFIX) for name in names if SNAPSHOT_SUFFIX in name]
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def snapshot(self, offset: int) -> bytes | None:
        """The snapshot at `offset`; None when missing or damaged: an older one suffices."""
        try:
            return read_checked(self._files, self._snapshot_path(offset), KIND_PRODUCERS, VERSION)
        except CorruptData:
            return None

    def store_snapshot(self, offset: int, payload: bytes) -> None:
        """Write a snapshot, unless it exists, and remove all but the newest ones."""
        path = self._snapshot_path(offset)
        if self.snapshot(offset) == payload:
            return
        self.settle()
        write_checked(self._files, path, KIND_PRODUCERS, VERSION, payload)
        for old in self.snapshot_offsets()[:-SNAPSHOTS_KEPT]:
            self._files.remove(self._snapshot_path(old))

    def remove_snapshots_past(self, offset: int) -> None:
        for found in self.snapshot_offsets():
            if found > offset:
                self._files.remove(self._snapshot_path(found))

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"

    def _snapshot_path(self, offset: int) -> str:
        return f"{self._directory}/{offset:020d}{SNAPSHOT_SUFFIX}"


def _refuse() -> None:
    raise FileNotFoundError(errno.ENOENT, "the log was closed before anything of it was durable")
