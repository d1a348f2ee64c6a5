"""A lasting condition, logged without a flood.

Rules: it is logged when it starts, at most once a minute while it lasts, with its duration, and
when it ends. An end without a start is not logged.
"""

from collections.abc import Callable

REMIND_MS = 60_000

Tell = Callable[..., None]
"""A constant message, and its fields by name."""


class Lasting:
    """One condition of one component; times are of one monotonic clock."""

    __slots__ = ("_began_ms", "_fields", "_tell", "_told_ms", "_what")

    def __init__(self, tell: Tell, what: str, **fields: object) -> None:
        """`fields` are added to every line."""
        self._tell = tell
        self._what = what
        self._fields = fields
        self._began_ms: int | None = None
        self._told_ms = 0

    @property
    def lasts(self) -> bool:
        return self._began_ms is not None

    def goes_on(self, now_ms: int, reason: str) -> None:
        """It started, or is seen again."""
        if self._began_ms is None:
            self._began_ms = now_ms
        elif now_ms - self._told_ms < REMIND_MS:
            return
        self._told_ms = now_ms
        self._say(self._what, now_ms, reason=reason)

    def end(self, now_ms: int, how: str) -> None:
        """It ended, if it had started."""
        if self._began_ms is not None:
            self._say(how, now_ms)
            self._began_ms = None

    def _say(self, what: str, now_ms: int, **more: object) -> None:
        assert self._began_ms is not None
        lasted_s = (now_ms - self._began_ms) // 1_000
        told = {**self._fields, **more}
        self._tell(what, **told, **({"lasted_s": lasted_s} if lasted_s else {}))
