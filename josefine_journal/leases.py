"""Topic leases of several replicators: file locks (flock) in the folder of the stores.

Rules: a lock ends with its process, however it ends, so a lease has no timeout and nobody waits for
a dead process; each replicator holds a lock of its own, so that the others can count members; a
share is the number of topics per member, rounded up. Leases only save work: two replicators of one
topic do no harm, because the store accepts each commit from only one of them.
"""

import fcntl
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = "leases~"
"""No topic can have that name."""
MEMBERS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """The next change of a replicator's set of topics."""

    drop: Sequence[str]
    take: Sequence[str]
    """Candidates, of which at most `room` are taken: those whose lease is free."""
    room: int


def share(topics: Collection[str], held: Collection[str], members: int) -> Share:
    """The share of all existing topics; `members` includes this replicator."""
    most = -(-len(topics) // max(1, members))
    mine = sorted(set(held) & set(topics))
    gone = sorted(set(held) - set(topics))
    return Share(
        drop=[*gone, *mine[most:]],
        take=sorted(set(topics) - set(held)),
        room=max(0, most - len(mine)),
    )


class Leases:
    """The leases of one replicator, in the folder of the stores. Raises OSError."""

    def __init__(self, root: Path) -> None:
        self._folder = root.absolute() / FOLDER
        self._held: dict[str, int] = {}
        self._place: int | None = None
        self._number = 0

    @property
    def held(self) -> Collection[str]:
        return tuple(self._held)

    def members(self) -> int:
        """Number of live replicators, including this one."""
        self._join()
        count = 1
        for number in range(MEMBERS_MAX):
            path = self._folder / f"member~{number}"
            if not path.exists():
                break
            if number != self._number and _is_locked(path):
                count += 1
        return count

    def take(self, topic: str) -> bool:
        """Try to take the lease; whether this replicator holds it now."""
        if topic not in self._held:
            found = self._locked(topic)
            if found is None:
                return False
            self._held[topic] = found
        return True

    def drop(self, topic: str) -> None:
        descriptor = self._held.pop(topic, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        for topic in list(self._held):
            self.drop(topic)
        if self._place is not None:
            os.close(self._place)
            self._place = None

    def _join(self) -> None:
        while self._place is None and self._number < MEMBERS_MAX:
            self._place = self._locked(f"member~{self._number}")
            if self._place is None:
                self._number += 1

    def _locked(self, name: str) -> int | None:
        self._folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        return descriptor


def _is_locked(path: Path) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
