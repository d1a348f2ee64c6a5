"""Marks on disk about the runs of the broker process, by which the next run judges the logs.

`clean-shutdown.marker` is written by a clean stop with the broker epoch of that process, and
removed by the next start: a directory restored from an older copy names an older epoch (KIP-966).
`running.marker` has the epoch of the serving process and the boot id of the machine: a killed
process has lost nothing it wrote as long as the machine keeps running. `starting.marker` lists the
processes started since then: the cluster may have registered one that was killed before it knew,
and then its epoch belongs to this disk.
"""

import struct

from josefine_broker.base.errors import CorruptData
from josefine_broker.base.ports import Files
from josefine_broker.host.disk.files import read_checked, write_checked

NO_EPOCH = -1
CLEAN_SHUTDOWN_FILE = "clean-shutdown.marker"
RUNNING_FILE = "running.marker"
STARTING_FILE = "starting.marker"
STARTED_MAX = 32
"""Number of last starts kept; if an older one turns out to be registered, the logs are in doubt."""

_KIND_CLEAN_SHUTDOWN, _KIND_RUNNING, _KIND_STARTING = 4, 6, 12
_EPOCH = struct.Struct(">q")


class LifeMarks:
    """One per process, created at its start. A damaged mark counts as none."""

    def __init__(self, files: Files, boot_id: str) -> None:
        """Removes the mark of the clean stop. `boot_id` changes at each start of the machine;
        empty: unknown. Raises OSError."""
        self._files = files
        self._boot_id = boot_id
        self._is_marked = False
        clean = _epoch(self._read(CLEAN_SHUTDOWN_FILE, _KIND_CLEAN_SHUTDOWN))
        self.was_clean = clean is not None
        """The last process stopped cleanly."""
        self.previous_epoch = self._epoch_of_killed() if clean is None else clean
        """Broker epoch of the last serving process, if all its writes are present; otherwise
        NO_EPOCH."""
        started = self._read(STARTING_FILE, _KIND_STARTING) or b""
        self.started = tuple(started.decode(errors="replace").split())
        """Incarnations started since then, all of whose writes are present."""
        if clean is not None and boot_id:
            self._keep(clean)
        files.remove(CLEAN_SHUTDOWN_FILE)
        files.sync_directory("")

    def starting(self, incarnation: str) -> None:
        """This process is about to register. If the disk is full nothing is stored: then the
        cluster doubts the logs if it registers this process and never sees it serve."""
        names = (*self.started, incarnation)[-STARTED_MAX:]
        self._is_marked = True
        try:
            write_checked(self._files, STARTING_FILE, _KIND_STARTING, 1, " ".join(names).encode())
        except OSError:
            return

    def running(self, broker_epoch: int) -> None:
        """This process serves under this epoch. Raises OSError."""
        self._write_running(broker_epoch)
        self._files.remove(STARTING_FILE)
        self._is_marked = True

    def stopped(self, broker_epoch: int) -> None:
        """Everything that this process wrote is synced. Raises OSError."""
        payload = _EPOCH.pack(broker_epoch)
        write_checked(self._files, CLEAN_SHUTDOWN_FILE, _KIND_CLEAN_SHUTDOWN, 1, payload)

    @property
    def is_marked(self) -> bool:
        """A mark on disk vouches for the writes of this process."""
        return self._is_marked

    def unmark(self) -> None:
        """After a failed sync the kernel may have dropped written pages (fsyncgate)."""
        self._is_marked = False
        self._files.remove(RUNNING_FILE)

    def _keep(self, epoch: int) -> None:
        """The statement of the clean stop also holds for the page cache of this boot, should this
        process be killed before it serves."""
        try:
            self._write_running(epoch)
        except OSError:  # disk full: then the next start doubts the logs
            self._files.remove(RUNNING_FILE)

    def _write_running(self, epoch: int) -> None:
        payload = _EPOCH.pack(epoch) + self._boot_id.encode()
        write_checked(self._files, RUNNING_FILE, _KIND_RUNNING, 1, payload)

    def _epoch_of_killed(self) -> int:
        payload = self._read(RUNNING_FILE, _KIND_RUNNING)
        if payload is None or not self._boot_id or len(payload) < _EPOCH.size:
            return NO_EPOCH
        same_boot = payload[_EPOCH.size :] == self._boot_id.encode()
        return int(_EPOCH.unpack_from(payload)[0]) if same_boot else NO_EPOCH

    def _read(self, path: str, kind: int) -> bytes | None:
        try:
            return read_checked(self._files, path, kind, 1)
        except CorruptData:
            return None


def _epoch(payload: bytes | None) -> int | None:
    """The epoch in a clean stop's mark; None: there is no mark."""
    if payload is None or len(payload) != _EPOCH.size:
        return None
    return int(_EPOCH.unpack(payload)[0])
