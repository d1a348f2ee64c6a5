"""Which failures of a commit are tried again. The texts are Spark's own."""

from __future__ import annotations

import pytest

from pipelines.retries import RETRIES, retry_of

LOST = "Job aborted due to stage failure: Task 1 in stage 0.0 failed 1 times, most recent failure: "
AGAIN = [
    ("[DELTA_CONCURRENT_APPEND.WITHOUT_HINT] x", "another commit came between"),
    (LOST + "ExecutorLostFailure (executor 1 exited caused by one of the", "an executor was lost"),
    (LOST + "Python worker exited unexpectedly (crashed)", "a Python worker died"),
    (LOST + "SparkException: Python worker failed to connect back.", "a Python worker died"),
    (
        "ShuffleMapStage 9 (save) has failed the maximum allowable number of times: 4.",
        "shuffled data was lost",
    ),
    (
        LOST + "java.io.IOException: Failed to get broadcast_7_piece0 of broadcast_7",
        "a broadcast block was lost",
    ),
]
NOT_AGAIN = [
    '[CAST_INVALID_INPUT] The value \'x5\' of the type "STRING" cannot be cast to "INT"',
    "[USER_RAISED_EXCEPTION] no",
    "[DELTA_CANNOT_CREATE_LOG_PATH] Cannot create file:/x/_delta_log",
    LOST + "java.io.IOException: No space left on device",
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
