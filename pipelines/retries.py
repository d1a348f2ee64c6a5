"""Which failures of a commit are tried again: a literal table. And which of a whole run, how long.

A failed attempt after which the log shows no commit of ours has moved nothing, so another one is
safe; it is worth it only where the failure lay in the machines and not in the rows, the SQL, the
path or the disk. On one machine Spark itself gives every task a single attempt. Not in the table: a
damaged state inside the JVM, which no second attempt mends.
"""

from __future__ import annotations

from dataclasses import dataclass

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


def restart_of(failure: BaseException, *, skips_losses: bool) -> Retry | None:
    """Why the run is begun again behind its last commit; None: it would fail again."""
    if LOST.mark in str(failure):
        return LOST if skips_losses else None
    return retry_of(failure)


def retry_of(failure: BaseException) -> Retry | None:
    """The kind of a failed attempt that may be tried again; None: it would fail again."""
    text = str(failure)
    return next((retry for retry in RETRIES if retry.mark in text), None)
