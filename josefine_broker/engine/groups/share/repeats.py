"""The pauses after which a write of a share partition that failed is repeated: of its state, or of
dead letters."""


class Repeats:
    """The failures of one kind of write since the last success. Mutable.

    Each pause is twice as long as the one before, up to the longest one. No pause is random: it
    starts when the write of its own share partition failed, so they do not fall together.
    """

    __slots__ = ("_first_ms", "_longest_ms", "retry_ms", "since_ms", "tries")

    def __init__(self, first_ms: int, longest_ms: int) -> None:
        self._first_ms = first_ms
        self._longest_ms = longest_ms
        self.retry_ms = 0
        """When the next write may begin."""
        self.since_ms = 0
        """When the first of the failures was,"""
        self.tries = 0
        """and how many there are."""

    def failed(self, now_ms: int) -> None:
        """Another failure."""
        if not self.tries:
            self.since_ms = now_ms
        # Bounded before the shift, or the number would grow without end while the topic is away.
        self.retry_ms = now_ms + min(self._first_ms << min(self.tries, 5), self._longest_ms)
        self.tries += 1

    def ended(self) -> None:
        """A success, or nobody waits for one any more: the next failure is a first one."""
        self.tries = 0
