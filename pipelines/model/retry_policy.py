"""The retry policy: which failures of a commit are retried (a literal table), and which of a run.

If the log shows no commit of this sink after a failed attempt, nothing has changed, so a retry is
safe. It is useful only if the machines caused the failure, not the rows, the SQL, the path or the
disk. In local mode Spark itself gives every task a single attempt. The table does not contain a
damaged state inside the JVM, which a retry cannot fix.
"""

from __future__ import annotations

from dataclasses import dataclass

from josefine_broker.base.errors import PRODUCED_UNREADABLE

ATTEMPTS_MAX = 4
"""Attempts of one commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """A kind of failure: `mark` is a part of Spark's message, `says` is the text for the user."""

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
"""For a run only: if it may skip lost records, its next start records the loss."""

PAUSES_MS = (1_000, 60_000)
"""The default of the first and the longest pause before a run is restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """The restarts of a failed run that a file grants without a batch in between, and their pauses:
    each is twice the previous one."""

    attempts: int
    first_ms: int
    last_ms: int


class Restarts:
    """The restarts that a file's `restart` grants in addition to `RETRIES`. Mutable: how many are
    used since the last batch."""

    def __init__(self, restart: Restart | None) -> None:
        self._restart = restart
        self._used = 0

    def well(self) -> None:
        """A batch is done."""
        self._used = 0

    def next(self, says: str) -> Retry | None:
        """The next restart of a run that failed because of `says`; None: there is none left."""
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
"""For a run only: readers have already retried, so a single commit is not retried."""

PATIENCE_S = 120.0
"""How long a run is restarted if no batch is finished between its failures."""


class Patience:
    """The time limit of restarts after failures that a commit retry does not solve (Spark's
    planning, an overloaded machine). Mutable: the time of the last success. Times in seconds."""

    def __init__(self) -> None:
        self._failing_since: float | None = None

    def well(self) -> None:
        """A batch is done."""
        self._failing_since = None

    def lasts(self, begun_s: float, now_s: float) -> bool:
        """Whether to restart after a failure at `now_s` of an attempt that started at `begun_s`."""
        if self._failing_since is None or now_s - begun_s > PATIENCE_S:
            self._failing_since = now_s
        return now_s - self._failing_since < PATIENCE_S


class Starts:
    """The restart decision of a failed run: failures in `RETRIES` for as long as `Patience` lasts;
    others, and those after that time, as often as the file's `restart` grants. Mutable: both."""

    def __init__(self, restart: Restart | None) -> None:
        self._patience = Patience()
        self._restarts = Restarts(restart)

    def well(self) -> None:
        """A new batch is done."""
        self._patience.well()
        self._restarts.well()

    def next(
        self, failure: BaseException, says: str, *, skips_losses: bool, begun_s: float, now_s: float
    ) -> Retry | None:
        """The restart after a failure (`says`: the text for the user) at `now_s` of an attempt that
        started at `begun_s`. None: no restart."""
        retry = restart_of(failure, skips_losses=skips_losses)
        if retry is not None and self._patience.lasts(begun_s, now_s):
            return retry
        if LOST.mark in str(failure) and not skips_losses:
            # A person has to decide whether to skip the lost records.
            return None
        if PRODUCED_UNREADABLE in str(failure):
            # The next start would find it unreadable too.
            return None
        return self._restarts.next(says)


def restart_of(failure: BaseException, *, skips_losses: bool) -> Retry | None:
    """Why the run is restarted after its last commit; None: it would fail again."""
    if LOST.mark in str(failure):
        return LOST if skips_losses else None
    if AWAY.mark in str(failure):
        return AWAY
    return retry_of(failure)


def retry_of(failure: BaseException) -> Retry | None:
    """The kind of failure if a retry is useful; None: it would fail again."""
    text = str(failure)
    return next((retry for retry in RETRIES if retry.mark in text), None)
