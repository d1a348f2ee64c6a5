"""What a process leaves on disk about its own life, for the next one to judge the logs by.

`clean-shutdown.marker` is written by a clean stop with the broker epoch of that process, and taken
away by the next start: a directory put back from an older copy names an older epoch (KIP-966).
`running.marker` has the epoch of the process that serves, and the boot of its machine: a process
that was killed has lost nothing of what it wrote while the machine runs on. `starting.marker` names
the processes that were started since then: the cluster may have registered one that was killed
before it knew, and the epoch of that one is no other disk's.
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
"""Of the last starts; an older one that turns out to be registered casts doubt on the logs."""

_KIND_CLEAN_SHUTDOWN, _KIND_RUNNING, _KIND_STARTING = 4, 6, 12
_EPOCH = struct.Struct(">q")


class LifeMarks:
    """One per process, made at its start. A mark that is damaged is as good as none."""

    def __init__(self, files: Files, boot_id: str) -> None:
        """Takes the clean stop's mark away. `boot_id` is another after each start of the machine;
        empty: not known. Raises OSError."""
        self._files = files
        self._boot_id = boot_id
        self._is_marked = False
        clean = _epoch(self._read(CLEAN_SHUTDOWN_FILE, _KIND_CLEAN_SHUTDOWN))
        self.was_clean = clean is not None
        """The last process stopped cleanly."""
        self.previous_epoch = self._epoch_of_killed() if clean is None else clean
        """Broker epoch of the last process that served, if all that it wrote is here; else
        NO_EPOCH."""
        started = self._read(STARTING_FILE, _KIND_STARTING) or b""
        self.started = tuple(started.decode(errors="replace").split())
        """Incarnations that were started since then, and wrote nothing that is not here."""
        if clean is not None and boot_id:
            self._keep(clean)
        files.remove(CLEAN_SHUTDOWN_FILE)
        files.sync_directory("")

    def starting(self, incarnation: str) -> None:
        """This process is going to be registered. Without room nothing is noted: then the cluster
        doubts the logs if it registers this process and never sees it serve."""
        names = (*self.started, incarnation)[-STARTED_MAX:]
        self._is_marked = True
        try:
            write_checked(self._files, STARTING_FILE, _KIND_STARTING, 1, " ".join(names).encode())
        except OSError:
            return

    def running(self, broker_epoch: int) -> None:
        """This process serves under that epoch. Raises OSError."""
        self._write_running(broker_epoch)
        self._files.remove(STARTING_FILE)
        self._is_marked = True

    def stopped(self, broker_epoch: int) -> None:
        """All that this process wrote is synced. Raises OSError."""
        payload = _EPOCH.pack(broker_epoch)
        write_checked(self._files, CLEAN_SHUTDOWN_FILE, _KIND_CLEAN_SHUTDOWN, 1, payload)

    @property
    def is_marked(self) -> bool:
        """Something on disk vouches for what this process writes."""
        return self._is_marked

    def unmark(self) -> None:
        """After a failed sync the kernel may have dropped what was written (fsyncgate)."""
        self._is_marked = False
        self._files.remove(RUNNING_FILE)

    def _keep(self, epoch: int) -> None:
        """What the clean stop said is true of this boot's page cache too, should this process be
        killed before it serves."""
        try:
            self._write_running(epoch)
        except OSError:  # no room: then the next start doubts
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
    """Of a clean stop's mark; None: there is none."""
    if payload is None or len(payload) != _EPOCH.size:
        return None
    return int(_EPOCH.unpack(payload)[0])
