"""Who of several replicators has which topic: locks on files beside the stores (flock).

Rules: a lock ends with its process, however that ends, so there is no time in it and nobody waits
for a dead one; each replicator keeps a place of its own, so that others can count; a share is a
topic's part of the whole, rounded up. Locks save work only: two replicators of one topic would do
no harm, for the store takes each commit from one of them.
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
    """What a replicator does next about its topics."""

    drop: Sequence[str]
    take: Sequence[str]
    """As many of them as `room` says, those that can be had."""
    room: int


def share(topics: Collection[str], held: Collection[str], members: int) -> Share:
    """Of all topics that are there; `members` counts this replicator, too."""
    most = -(-len(topics) // max(1, members))
    mine = sorted(set(held) & set(topics))
    gone = sorted(set(held) - set(topics))
    return Share(
        drop=[*gone, *mine[most:]],
        take=sorted(set(topics) - set(held)),
        room=max(0, most - len(mine)),
    )


class Leases:
    """Of one replicator, below the folder of the stores. Raises OSError."""

    def __init__(self, root: Path) -> None:
        self._folder = root.absolute() / FOLDER
        self._held: dict[str, int] = {}
        self._place: int | None = None
        self._number = 0

    @property
    def held(self) -> Collection[str]:
        return tuple(self._held)

    def members(self) -> int:
        """Replicators that are alive, this one among them."""
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
        """Whether this one has it now."""
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
