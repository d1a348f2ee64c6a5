"""Removal of partition directories: renamed at once, deleted from the disk a little later.

Rules: a directory is renamed to `~deleted.<number>` (`~` is in no topic name), so its name is free.
The new names are synced before anything below them is removed; otherwise a power loss may leave
half of a directory under its old name, which looks like damage. One job removes all waiting
directories: a topic has thousands of partitions, and a job for each would fill the flusher's queue.
The next start removes the rest.
"""

from collections import deque
from collections.abc import Callable

from josefine_broker.base.ports import Files
from josefine_broker.host.disk.flusher import Job

DELETED_PREFIX = "~deleted."


class Removal:
    """One per data directory."""

    def __init__(self, files: Files, schedule: Callable[[Job], None]) -> None:
        self._files = files
        self._schedule = schedule
        self._number = 0
        self._waiting: deque[str] = deque()
        """Renamed directories; the caller that appends the first one schedules the job."""

    def remove(self, directory: str) -> None:
        """Raises OSError if the directory cannot be renamed."""
        self._number += 1
        renamed = f"{DELETED_PREFIX}{self._number}"
        self._files.rename(directory, renamed, durable=False)
        self._waiting.append(renamed)
        if len(self._waiting) == 1:
            self._schedule(self._remove_trees)

    def _remove_trees(self) -> None:
        """Scheduled. Raises OSError."""
        while self._waiting:
            count = len(self._waiting)
            try:
                self._files.sync_directory("")
            except OSError:
                self._waiting.clear()
                raise
            for _ in range(count):
                self._files.remove_tree(self._waiting.popleft())
