"""How many dead letters are too many."""

from __future__ import annotations

from pipelines.model.dead_letter_threshold import Recent, Threshold


def test_dead_letters_are_judged_over_the_last_batches():
    recent = Recent(Threshold(ratio=0.1, window=3))

    assert recent.batch(100, 10) == ""
    assert recent.batch(100, 0) == ""
    assert recent.batch(100, 20) == ""
    # The first batch is out of sight now.
    assert recent.batch(100, 11) == (
        "31 of 300 records of the last 3 batches are dead letters, more than 10.00% (threshold)"
    )


def test_a_batch_without_records_stops_nothing():
    assert Recent(Threshold(ratio=0, window=1)).batch(0, 0) == ""
    assert "1 of 1 records of the last batch" in Recent(Threshold(ratio=0, window=1)).batch(1, 1)
