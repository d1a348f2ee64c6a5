"""The SQL of upsert, scd2 and deduplicate, broken on purpose: each mutant is caught by a test.

A mutant that survives says which rule no test holds. By hand: `pytest -m slow` on this file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from pipelines.transforms import upsert
from pipelines.transforms.aggregate import Merge
from pipelines.transforms.upsert import HIDDEN
from tests.spark.pipelines import test_deduplicate, test_scd2, test_upsert

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

LATEST = test_upsert.test_the_latest_row_is_the_same_whatever_batches_the_rows_come_in
REMOVED = test_upsert.test_a_removed_key_comes_back_only_by_a_row
COPIES = test_deduplicate.test_the_table_is_the_same_however_batches_are_cut
FOR_EVER = test_deduplicate.test_without_a_time_a_key_is_there_once_for_ever
HISTORY = test_scd2.test_the_history_is_the_same_in_whatever_batches_and_order_the_versions_come
AGAIN = test_scd2.test_a_batch_that_is_there_changes_no_row

Change = Callable[[Merge], Merge]


def merges(module: Any, name: str, change: Change) -> tuple[Any, str, Any]:
    """The function of a test's module that makes its MERGE, and what takes its place."""
    real = getattr(module, name)
    return module, name, lambda *arguments: change(real(*arguments))


def upserts(change: Change) -> tuple[Any, str, Any]:
    return merges(test_upsert, "upsert", change)


def comes_in(change: Change) -> tuple[Any, str, Any]:
    return merges(test_deduplicate, "new_rows", change)


def histories(change: Change) -> tuple[Any, str, Any]:
    return merges(test_scd2, "history", change)


MUTANTS = {
    "a late row takes the place": (LATEST, upserts(lambda m: replace(m, update_when=None))),
    "the earlier row stays": (
        LATEST,
        upserts(lambda m: replace(m, update_when=str(m.update_when).replace(") > ", ") < "))),
    ),
    "equal rows are chosen by chance": (LATEST, (upsert, "ranked", lambda *_: iter(()))),
    "a batch is not reduced": (LATEST, (upsert, "latest_of", lambda frame, _: frame)),
    "a delete comes in": (REMOVED, upserts(lambda m: replace(m, insert_when=None))),
    "a late delete removes": (
        REMOVED,
        upserts(lambda m: replace(m, delete_when=f"s.`{HIDDEN}`")),
    ),
    "nothing is removed": (REMOVED, upserts(lambda m: replace(m, delete_when=None))),
    "columns of others go": (
        REMOVED,
        upserts(lambda m: replace(m, update={**m.update, "note": "null"})),
    ),
    "time is not asked for": (
        COPIES,
        comes_in(lambda m: replace(m, on=str(m.on).split(" AND t.`at`")[0])),
    ),
    "nulls are equal": (
        COPIES,
        comes_in(lambda m: replace(m, on=str(m.on).replace(" = ", " <=> "))),
    ),
    "copies in a batch stay": (
        COPIES,
        (test_deduplicate, "without_copies", lambda rows, _: rows),
    ),
    "copies in the table are not seen": (FOR_EVER, comes_in(lambda m: replace(m, on="false"))),
    "versions of the table stay as they are": (
        HISTORY,
        histories(lambda m: replace(m, source=None)),
    ),
    "a version is told by less": (HISTORY, histories(lambda m: replace(m, keys=m.keys[:2]))),
    "each row is written again": (AGAIN, histories(lambda m: replace(m, update_when=None))),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_each_mutant_is_caught(spark, tmp_path, monkeypatch, name):
    proof, (module, attribute, mutant) = MUTANTS[name]
    monkeypatch.setattr(module, attribute, mutant)

    # An assertion, or Delta's own complaint; anything else is a fault of the mutant.
    with pytest.raises((AssertionError, PySparkException)):
        proof(spark, tmp_path)
