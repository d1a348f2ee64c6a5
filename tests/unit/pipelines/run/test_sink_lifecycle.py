"""What follows a sink's failure, and when it is begun again."""

from __future__ import annotations

import pytest

from pipelines.base.errors import ChainError, RunError, TooManyLettersError
from pipelines.model.retry_policy import LOST, RETRIES, Restart
from pipelines.run.sink_lifecycle import POLL_MAX_S, After, Life, SinkLives, after, poll_s

ONCE = Restart(attempts=1, first_ms=1, last_ms=1)


@pytest.mark.parametrize(
    ("failure", "retry", "moves_letters", "follows"),
    [
        (TooManyLettersError("x"), None, False, After.ALL_END),
        (TooManyLettersError("x"), RETRIES[0], True, After.ALL_END),
        (ChainError("x"), None, True, After.SINK_ENDS),
        (RunError("x"), None, False, After.SINK_ENDS),
        (OSError("x"), None, True, After.SINK_ENDS),
        (OSError("x"), RETRIES[0], False, After.SINK_AGAIN),
        (OSError("x"), RETRIES[0], True, After.ALL_AGAIN),
        (OSError("x"), LOST, False, After.ALL_AGAIN),
    ],
)
def test_what_follows_a_failure(failure, retry, moves_letters, follows):
    assert after(failure, retry, moves_letters=moves_letters) is follows


def test_a_sink_rests_until_its_pause_is_over_and_the_others_run():
    lives = SinkLives(["a", "b"], None)
    for sink in ("a", "b"):
        lives.prepare(sink, 0.0)
        lives.begin(sink, 1.0)

    lives.pause("a", due_s=5.0)

    assert (lives.running(), lives.left()) == (["b"], ["a", "b"])
    assert (lives.due(4.9), lives.due(5.0)) == ([], ["a"])
    lives.begin("a", 5.0)
    assert lives.due(9.0) == []


def test_each_sink_has_starts_of_its_own():
    lives = SinkLives(["a", "b"], ONCE)

    def granted(sink):
        return lives.granted(sink, OSError("x"), "x", skips_losses=False, now_s=1.0) is not None

    for sink in ("a", "b"):
        lives.prepare(sink, 0.0)
    assert [granted("a"), granted("a"), granted("b")] == [True, False, True]
    lives.well("b")
    assert [granted("a"), granted("b")] == [False, True]


def test_a_run_is_over_when_each_sink_has_ended_or_failed():
    lives = SinkLives(["a", "b"], None)
    for sink in ("a", "b"):
        lives.begin(sink, 0.0)
    lives.end("a")
    assert lives.left() == ["b"]

    lives.fail("b", failure := RunError("x"))

    assert lives.left() == []
    assert lives.failures == {"b": failure}
    assert lives.lives == {"a": Life.ENDED, "b": Life.FAILED}


@pytest.mark.parametrize(
    ("every_ms", "pause_s"), [(None, 0.05), (100, 0.05), (1_000, 0.1), (15_000, 0.5), (10**9, 0.5)]
)
def test_the_queries_of_a_run_with_an_interval_are_asked_seldom(every_ms, pause_s):
    assert poll_s(every_ms) == pause_s <= POLL_MAX_S
