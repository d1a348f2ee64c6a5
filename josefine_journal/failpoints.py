"""Places where a replicator can be made to die, for kill tests: ours and those of users.

`JOSEFINE_FAIL=NAME[@HIT]` kills the process with SIGKILL the HIT-th time (first by default) that
the place is reached: nothing is flushed, no handler runs.
"""

import os
import signal
from collections.abc import Callable, Sequence

from josefine_broker.base.failpoints import Failpoint

PLACES = (
    "begun",  # a round knows where the store and the log end
    "read",  # what is new was read from the topic
    "before_create",  # there is no table yet
    "before_migration",  # the table is one of an older layout
    "before_files",  # the commit is decided on, no file is written
    "before_commit",  # files lie in the table's folder, no log entry names them
    "after_commit",  # the commit is there, the replicator does not know
    "before_merge",  # files to be merged were read
    "before_merge_commit",  # the merged file is written, no log entry names it
    "after_merge",  # the merge is there, the old files lie about
)

MOVE_PLACES = (
    "moved_some",  # a batch of copies, purges or marks is written
    "moved_left",  # every journal that moves is purged in its old partition
    "moved_marked",  # every partition says the new count, the store does not
)
"""Of `journal move`."""


def nothing_fails(place: str) -> None:
    """For who arms no place."""


def armed(text: str | None, places: Sequence[str] = PLACES) -> Callable[[str], None]:
    """What kills this process at the place. Raises ValueError for a place that is not there."""
    if not text:
        return nothing_fails
    point = Failpoint(text, places, has_index=False)

    def at(reached: str) -> None:
        if point.reached(reached):
            os.kill(os.getpid(), signal.SIGKILL)

    return at
