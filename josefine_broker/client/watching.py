"""The description of a running operation's wait, for a watcher on another thread.

Decides nothing. The session knows the operation and its last retriable error; the shell records the
broker it is asking.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from josefine_broker.client.session import Session
from josefine_broker.wire import apis

Describe = Callable[[], str]
Watch = Callable[[Describe], AbstractContextManager[object]]
"""Entered around each operation: may show the description to users after a while."""

ASKED_MS = 1_000
"""A longer wait for an answer is mentioned."""


WAITS_OF: Mapping[int, str] = {
    apis.JOIN_GROUP: (
        "the group waits for its members, a new one for group.initial_rebalance_delay_ms (3 s)"
    ),
}
"""API key → the reason of an answer that comes late by design."""


def wait_for(api_key: int, address: object) -> str:
    """The description of a wait for an answer."""
    return WAITS_OF.get(api_key, f"{address} has not answered")


def unwatched(_describe: Describe) -> AbstractContextManager[object]:
    """The default watch: reports nothing."""
    return _NOBODY


_NOBODY = nullcontext()


class Doing:
    """The description of one client; written by the working thread, read by any."""

    __slots__ = ("_now_ms", "_session", "_since_ms", "_what")

    def __init__(self, session: Session, now_ms: Callable[[], int]) -> None:
        self._session = session
        self._now_ms = now_ms
        self._what = ""
        self._since_ms = 0

    def begins(self, what: str) -> None:
        """From now on `what` is in progress; empty: nothing is."""
        self._what, self._since_ms = what, self._now_ms()

    def describe(self) -> str:
        """`produce: partition t-0: 1 in sync, 2 needed`."""
        attempts = self._session.latest
        what, trouble = ("", "") if attempts is None else (attempts.what, attempts.trouble)
        lasts = self._what and self._now_ms() - self._since_ms >= ASKED_MS
        reasons = "; now ".join(each for each in (trouble, self._what if lasts else "") if each)
        return ": ".join(each for each in (what, reasons) if each)
