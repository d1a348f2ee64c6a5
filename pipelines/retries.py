"""Which failures of a commit are tried again: a literal table.

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


def retry_of(failure: BaseException) -> Retry | None:
    """The kind of a failed attempt that may be tried again; None: it would fail again."""
    text = str(failure)
    return next((retry for retry in RETRIES if retry.mark in text), None)
