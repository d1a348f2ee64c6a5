"""The attempts of a commit: after each one the chain looks whether it is there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pipelines.exactly_once.offset_chain import Verdict
from pipelines.model.retry_policy import ATTEMPTS_MAX, Retry
from pipelines.sinks.commits import Attempts, Link, StoppedError, is_ours
from pipelines.sinks.delta_log import LogEntry, own_entry

LOST = "ExecutorLostFailure (executor 1 exited)"
BATCH = 7
ENTRY = own_entry("p.s", 3, {}, 5)


class Chain:
    """A chain whose writes fail as listed, and which shows its commit after so many of them."""

    def __init__(self, *failures: str | None, shown_after: int | None = None) -> None:
        self.failures = list(failures)
        self.shown_after = shown_after
        self.writes = 0
        self.retries: list[tuple[int, str]] = []
        self.pauses: list[float] = []

    def write(self) -> None:
        failure = self.failures[self.writes]
        self.writes += 1
        if failure is not None:
            raise RuntimeError(failure)

    def look(self, failure: Exception | None) -> LogEntry | None:
        return ENTRY if self.writes == self.shown_after else None

    def commit(self, look: Callable[[Exception | None], LogEntry | None] | None = None) -> LogEntry:
        def on_retry(batch_id: int, retry: Retry) -> None:
            self.retries.append((batch_id, retry.says))

        attempts = Attempts(on_retry, self.pauses.append)
        return attempts.commit(BATCH, self.write, look or self.look)


def test_a_commit_that_is_there_after_a_failure_is_not_made_again() -> None:
    chain = Chain(LOST, shown_after=1)

    assert chain.commit() is ENTRY
    assert (chain.writes, chain.retries) == (1, [])


def test_a_write_that_succeeds_and_leaves_nothing_has_lost_to_another_run() -> None:
    chain = Chain(None)

    with pytest.raises(StoppedError) as raised:
        chain.commit()

    assert raised.value.stop.verdict is Verdict.LOST_RACE


def test_an_attempt_is_repeated_with_longer_pauses_until_the_last_failure_is_raised() -> None:
    chain = Chain(*[LOST] * ATTEMPTS_MAX)

    with pytest.raises(RuntimeError, match="ExecutorLost"):
        chain.commit()

    assert chain.writes == ATTEMPTS_MAX
    assert chain.retries == [(BATCH, "an executor was lost")] * (ATTEMPTS_MAX - 1)
    assert chain.pauses == [2.0, 4.0, 6.0]


def test_a_failure_of_the_rows_is_raised_at_once() -> None:
    chain = Chain("a value cannot be cast")

    with pytest.raises(RuntimeError, match="cannot be cast"):
        chain.commit()

    assert (chain.writes, chain.pauses) == (1, [])


def test_no_attempt_follows_a_look_that_failed_whatever_the_reason() -> None:
    chain = Chain(None, None)

    def look(failure: Exception | None) -> LogEntry | None:
        raise RuntimeError(LOST)

    with pytest.raises(RuntimeError, match="ExecutorLost"):
        chain.commit(look)

    assert (chain.writes, chain.retries) == (1, [])


@pytest.mark.parametrize(
    ("said", "number", "ours"),
    [
        ({"run": "r", "batch": BATCH}, 3, True),
        ({"run": "another", "batch": BATCH}, 3, False),
        ({"run": "r", "batch": 0}, 3, False),
        ({"run": "r", "batch": BATCH}, 4, False),
        ({}, 3, False),
    ],
)
def test_a_commit_is_ours_by_run_batch_and_number_together(
    said: dict[str, object], number: int, ours: bool
) -> None:
    link = Link(pipeline="p", sink="s", run="r")

    assert is_ours(said, number, link, (BATCH, 3)) is ours
