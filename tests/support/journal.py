"""What a journal must answer: a model that keeps every event, and has no log and no store."""

from collections.abc import Sequence

from josefine_journal.events import Event


class Model:
    """One journal, event by event."""

    def __init__(self) -> None:
        self.pointer: int | None = None
        self.last_offset: int | None = None
        """Where the last append that counts stands, as its writer was told."""
        self.expire_on_ms: int | None = None
        self._events: dict[int, Event] = {}

    def append(self, events: Sequence[Event], expected: int | None = None) -> bool:
        """Whether it is taken: another expectation than the pointer is refused."""
        if expected is not None and expected != (self.pointer or 0):
            return False
        self._events |= {each.seq_nr: each for each in events}
        self.pointer = events[-1].seq_nr
        return True

    def delete(self, to: int) -> None:
        self._events = {n: each for n, each in self._events.items() if n > to}

    def purge(self) -> None:
        self._events, self.pointer = {}, None
        self.last_offset = self.expire_on_ms = None

    def is_over(self, now_ms: int) -> bool:
        return self.expire_on_ms is not None and self.expire_on_ms <= now_ms

    def read(self, begin: int = 1) -> list[Event]:
        return [each for n, each in sorted(self._events.items()) if n >= begin]
