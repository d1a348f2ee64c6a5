"""Dead letters are computed once, counted, and written to few files."""

from __future__ import annotations

import pytest

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.dead_letters.store import FILE_LETTERS, DeltaLetters
from pipelines.exactly_once.offset_chain import Commit
from tests.unit.pipelines.tiny_spark import Frame

pytest.importorskip("pyspark")
COMMIT = Commit(start={}, end=TopicOffsets(), txn_version=1)


class Files(Frame):
    """A frame that remembers how many files it would be written to."""

    files = 0

    def coalesce(self, count):
        self.files = count
        return self


class Chain:
    """A chain that keeps what is appended."""

    def __init__(self, error=None):
        self.appended, self.error = [], error

    def append(self, frame, commit, batch_id, more=None):
        if self.error:
            raise self.error
        self.appended.append((frame, commit, batch_id))


@pytest.mark.parametrize(
    ("count", "files"), [(1, 1), (FILE_LETTERS, 1), (FILE_LETTERS + 1, 2), (3 * FILE_LETTERS, 3)]
)
def test_a_file_has_as_many_letters_as_are_worth_one(count, files):
    letters, chain = Files([{"n": 0}] * count), Chain()

    assert DeltaLetters(None).write(chain, letters, COMMIT, 4) == count
    assert chain.appended == [(letters, COMMIT, 4)]
    assert (letters.files, letters.cached) == (files, 0)


def test_without_letters_nothing_is_committed():
    letters, chain = Files([]), Chain()

    assert DeltaLetters(None).write(chain, letters, COMMIT, 4) == 0
    assert (chain.appended, letters.cached) == ([], 0)


def test_nothing_stays_cached_after_a_commit_that_failed():
    letters = Files([{"n": 0}])

    with pytest.raises(OSError, match="full"):
        DeltaLetters(None).write(Chain(OSError("full")), letters, COMMIT, 4)

    assert letters.cached == 0
