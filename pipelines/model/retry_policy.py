"""Which failures of a commit are tried again: a literal table. And which of a whole run, how long.

A failed attempt after which the log shows no commit of ours has moved nothing, so another one is
safe; it is worth it only where the failure lay in the machines and not in the rows, the SQL, the
path or the disk. On one machine Spark itself gives every task a single attempt. Not in the table: a
damaged state inside the JVM, which no second attempt mends.
"""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.errors import PRODUCED_UNREADABLE

ATTEMPTS_MAX = 4
"""Of one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A kind of failure: `mark` is in Spark's text of it, `says` is ours."""

    mark: str
    says: str
    pause_s: float


RETRIES = (
    Retry(mark="DELTA_CONCURRENT_", says="another commit came between", pause_s=0.0),
    Retry(mark="ExecutorLostFailure (executor ", says="an executor was lost", pause_s=2.0),
    Retry(
        mark="Python worker exited unexpectedly (crashed)",
        says="a Python worker died",
        pause_s=1.0,
    ),
    Retry(mark="Python worker failed to connect back", says="a Python worker died", pause_s=1.0),
    Retry(
        mark="has failed the maximum allowable number of times",
        says="shuffled data was lost",
        pause_s=2.0,
    ),
    Retry(mark="Failed to get broadcast_", says="a broadcast block was lost", pause_s=1.0),
)


LOST = Retry(
    mark="DataLossError: records are lost",
    says="records were lost before they were read",
    pause_s=0.0,
)
"""Of a run: when it may pass over them, its next start records them."""

PAUSES_MS = (1_000, 60_000)
"""The first and the longest pause before a run is begun again, where the file says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """How often, with no batch in between, a file wants a failed run to be begun again, and after
    which pauses: each twice the one before."""

    attempts: int
    first_ms: int
    last_ms: int


class Restarts:
    """The starts that a file's `restart` grants, beside those of `RETRIES`. Mutable: how many of
    them are used up since the last batch."""

    def __init__(self, restart: Restart | None) -> None:
        self._restart = restart
        self._used = 0

    def well(self) -> None:
        """A batch is done."""
        self._used = 0

    def next(self, says: str) -> Retry | None:
        """The next start of a run that failed for `says`; None: there is none."""
        if self._restart is None or self._used >= self._restart.attempts:
            return None
        pause_ms = min(self._restart.last_ms, self._restart.first_ms << min(self._used, 32))
        self._used += 1
        told = f"{says} (start {self._used} of {self._restart.attempts} after this)"
        return Retry(mark="", says=told, pause_s=pause_ms / 1000)


AWAY = Retry(
    mark="RegistryAwayError: ",
    says="the schema registry does not answer",
    pause_s=5.0,
)
"""Of a run: those who read have asked several times, so a commit alone is not tried again."""

PATIENCE_S = 120.0
"""How long a run is begun again and again when no batch gets done between its failures."""


class Patience:
    """Whether failures that no commit got over (Spark's planning, a machine that is at its end) are
    worth another start. Mutable: since when nothing went well. Times in seconds, of one clock."""

    def __init__(self) -> None:
        self._failing_since: float | None = None

    def well(self) -> None:
        """A batch is done."""
        self._failing_since = None

    def lasts(self, begun_s: float, now_s: float) -> bool:
        """Ask after a failure at `now_s` of what was begun at `begun_s`."""
        if self._failing_since is None or now_s - begun_s > PATIENCE_S:
            self._failing_since = now_s
        return now_s - self._failing_since < PATIENCE_S


class Starts:
    """Whether a failed run is begun again: failures that `RETRIES` knows for as long as `Patience`
    lasts, others and those afterwards as often as the file's `restart` says. Mutable: by both."""

    def __init__(self, restart: Restart | None) -> None:
        self._patience = Patience()
        self._restarts = Restarts(restart)

    def well(self) -> None:
        """A batch is done that was not there before."""
        self._patience.well()
        self._restarts.well()

    def next(
        self, failure: BaseException, says: str, *, skips_losses: bool, begun_s: float, now_s: float
    ) -> Retry | None:
        """Ask after a failure, `says` in our words, at `now_s` of what was begun at `begun_s`.
        None: it is not begun again."""
        retry = restart_of(failure, skips_losses=skips_losses)
        if retry is not None and self._patience.lasts(begun_s, now_s):
            return retry
        if LOST.mark in str(failure) and not skips_losses:
            # Whether to pass over them is for a person to decide.
            return None
        if PRODUCED_UNREADABLE in str(failure):
            # It is as unreadable at the next start.
            return None
        return self._restarts.next(says)


def restart_of(failure: BaseException, *, skips_losses: bool) -> Retry | None:
    """Why the run is begun again behind its last commit; None: it would fail again."""
    if LOST.mark in str(failure):
        return LOST if skips_losses else None
    if AWAY.mark in str(failure):
        return AWAY
    return retry_of(failure)


def retry_of(failure: BaseException) -> Retry | None:
    """The kind of a failed attempt that may be tried again; None: it would fail again."""
    text = str(failure)
    return next((retry for retry in RETRIES if retry.mark in text), None)
