"""Which failures of a commit are tried again. The texts are Spark's own."""

from __future__ import annotations

from functools import partial

import pytest

from josefine_broker.base.errors import PRODUCED_UNREADABLE
from pipelines.model.retry_policy import (
    AWAY,
    LOST,
    PATIENCE_S,
    RETRIES,
    Patience,
    Restart,
    Restarts,
    Starts,
    restart_of,
    retry_of,
)

ABORTED = (
    "Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent failure: "
)
AGAIN = [
    ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] x", "another commit came between"),
    (
        ABORTED + "ExecutorLostFailure (executor 1 exited caused by one of the",
        "an executor was lost",
    ),
    (ABORTED + "Python worker exited unexpectedly (crashed)", "a Python worker died"),
    (ABORTED + "SparkException: Python worker failed to connect back.", "a Python worker died"),
    (
        "ShuffleMapStage 9 (save) has failed the maximum allowable number of times: 4.",
        "shuffled data was lost",
    ),
    (
        ABORTED + "java.io.IOException: Failed to get broadcast_7_piece0 of broadcast_7",
        "a broadcast block was lost",
    ),
]
NOT_AGAIN = [
    '[CAST_INVALID_INPUT] The value \'x5\' of the type "STRING" cannot be cast to "INT"',
    "[USER_RAISED_EXCEPTION] no",
    "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/x/_delta_log",
    ABORTED + "java.io.IOException: No space left on device",
    # Damaged for as long as the JVM lives.
    "Task serialization failed: java.lang.IllegalStateException: Illegal size 5 of collection",
]


@pytest.mark.parametrize(("text", "says"), AGAIN)
def test_failures_of_machines_are_tried_again(text, says):
    retry = retry_of(Exception(text))

    assert retry is not None
    assert retry.says == says


@pytest.mark.parametrize("text", NOT_AGAIN)
def test_failures_of_rows_paths_and_disks_are_not(text):
    assert retry_of(Exception(text)) is None


def test_every_row_of_the_table_has_its_text_here():
    assert {retry_of(Exception(text)) for text, _ in AGAIN} == set(RETRIES)


CONNECT = Exception("[STREAM_FAILED] x: Python worker failed to connect back. SQLSTATE: XXKST")
LOSS = Exception("x\njosefine_spark.errors.DataLossError: records are lost: t-0 offsets [0, 5): y")


@pytest.mark.parametrize("skips_losses", [True, False])
def test_a_run_begins_again_for_machines_and_for_losses_that_it_may_pass(skips_losses):
    again = partial(restart_of, skips_losses=skips_losses)

    assert again(CONNECT) is not None
    assert again(LOSS) is (LOST if skips_losses else None)
    assert again(Exception(NOT_AGAIN[0])) is None


def test_a_registry_that_is_away_is_waited_for_by_the_run_alone():
    away = Exception("x\npipelines.registry.RegistryAwayError: the schema registry http://r:1 x")

    assert restart_of(away, skips_losses=False) is AWAY
    assert retry_of(away) is None


def test_patience_ends_when_nothing_goes_well_for_its_time():
    patience = Patience()

    assert patience.lasts(begun_s=0, now_s=1)
    assert patience.lasts(begun_s=60, now_s=PATIENCE_S)
    assert not patience.lasts(begun_s=PATIENCE_S, now_s=PATIENCE_S + 1)


def test_patience_begins_anew_after_a_batch_and_after_a_long_time_without_a_failure():
    patience = Patience()
    patience.lasts(begun_s=0, now_s=1)
    patience.well()

    assert patience.lasts(begun_s=PATIENCE_S, now_s=PATIENCE_S + 1)
    assert patience.lasts(begun_s=PATIENCE_S + 2, now_s=3 * PATIENCE_S)


def test_a_files_restarts_wait_longer_each_time_and_begin_anew_behind_a_batch():
    restarts = Restarts(Restart(attempts=4, first_ms=1_000, last_ms=3_000))

    assert [restarts.next("x").pause_s for _ in range(4)] == [1.0, 2.0, 3.0, 3.0]
    assert restarts.next("x") is None
    restarts.well()
    assert restarts.next("no broker").says == "no broker (start 1 of 4 after this)"


def test_without_restart_in_the_file_there_is_none():
    assert Restarts(None).next("x") is None


TWICE = Restart(attempts=2, first_ms=1, last_ms=1)
CRASHED = Exception("x: Python worker exited unexpectedly (crashed)")
NOBODY = Exception("no broker there")


def start(starts, failure, now_s=0.0, *, skips_losses=False):
    """What the next start says; "" when there is none."""
    retry = starts.next(failure, "x", skips_losses=skips_losses, begun_s=0.0, now_s=now_s)
    return retry.says if retry else ""


def test_patience_comes_before_the_starts_of_the_file_and_a_batch_renews_both():
    starts = Starts(TWICE)

    assert start(starts, CRASHED) == "a Python worker died"
    assert start(starts, CRASHED, PATIENCE_S) == "x (start 1 of 2 after this)"
    assert start(starts, NOBODY) == "x (start 2 of 2 after this)"
    assert start(starts, NOBODY) == ""
    starts.well()
    assert start(starts, CRASHED, PATIENCE_S) == "a Python worker died"
    assert start(starts, NOBODY) == "x (start 1 of 2 after this)"


@pytest.mark.parametrize("skips_losses", [True, False])
def test_an_unreadable_batch_does_not_start_a_run_again(skips_losses):
    unreadable = Exception(f"x: {PRODUCED_UNREADABLE}. To go on, decide")

    assert start(Starts(TWICE), unreadable, skips_losses=skips_losses) == ""


def test_lost_records_are_no_reason_of_machines():
    lost = Exception(f"x: {LOST.mark}")

    assert start(Starts(TWICE), lost) == ""
    assert start(Starts(TWICE), lost, skips_losses=True) == LOST.says
