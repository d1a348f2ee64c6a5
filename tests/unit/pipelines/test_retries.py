"""Which failures of a commit are tried again. The texts are Spark's own."""

from __future__ import annotations

from functools import partial

import pytest

from pipelines.retries import LOST, PATIENCE_S, RETRIES, Patience, restart_of, retry_of

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
