"""Which links between simulated machines are cut, each direction by itself."""

from collections.abc import Iterable

__all__ = ["Cuts"]


class Cuts:
    """Mutable; what is sent over a cut link does not arrive."""

    def __init__(self) -> None:
        self._cut: set[tuple[int, int]] = set()

    @property
    def has_cuts(self) -> bool:
        return bool(self._cut)

    def is_blocked(self, sender: int, receiver: int) -> bool:
        return (sender, receiver) in self._cut

    def split(self, group: Iterable[int], others: Iterable[int]) -> None:
        """Neither side hears the other."""
        self.mute(group, others)
        self.mute(others, group)

    def mute(self, senders: Iterable[int], receivers: Iterable[int]) -> None:
        """What these send to those does not arrive."""
        self._cut |= {(a, b) for a in senders for b in receivers}

    def heal(self) -> None:
        self._cut.clear()
