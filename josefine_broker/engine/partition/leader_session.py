"""A follower's fetch session with one leader: its id, and its next request's epoch (KIP-227)."""

NO_SESSION_ID = 0
FULL_EPOCH = 0
SESSION_EPOCH_MAX = 2**31 - 1


class LeaderSession:
    """The fetch session at the leader (KIP-227): it remembers the partitions that were asked for.
    Mutable; owned by its fetcher."""

    __slots__ = ("epoch", "id", "is_refused")

    def __init__(self) -> None:
        self.id = NO_SESSION_ID
        self.epoch = FULL_EPOCH
        """Of the next request; FULL_EPOCH opens a session."""
        self.is_refused = False
        """The leader refused to create a session. Until a session is open the first request does
        not wait at the leader, because no second request can be sent before its answer."""

    @property
    def is_full(self) -> bool:
        """Whether the next request names every partition."""
        return self.epoch == FULL_EPOCH

    def advance(self) -> None:
        """After a request; the epoch wraps to 1, because 0 would open a session."""
        self.epoch = 1 if self.epoch >= SESSION_EPOCH_MAX else self.epoch + 1

    def on_opened(self, session_id: int) -> None:
        """Take the leader's answer to a full request."""
        self.id = session_id
        self.is_refused = session_id == NO_SESSION_ID
        if not self.is_refused:
            self.advance()
