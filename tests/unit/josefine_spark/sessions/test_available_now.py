"""A run to the end of what is there: begun again where Spark ended it early, and only there."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from josefine_spark import run_available_now
from josefine_spark.options.environment import NO_WORKER
from josefine_spark.sessions import available_now


class Query:
    """A query that has batches of these ends, each begun at the end before, then ends as told."""

    def __init__(self, *ends: int, raises: str | None = None) -> None:
        self._raises = raises
        self.recentProgress = [
            SimpleNamespace(sources=[SimpleNamespace(startOffset=a, endOffset=b)])
            for a, b in itertools.pairwise(ends)
        ]

    def awaitTermination(self) -> None:  # noqa: N802
        if self._raises is not None:
            raise StreamingQueryException(self._raises)


@pytest.fixture(params=[True, False], ids=["4.2", "4.1"])
def limits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    monkeypatch.setattr(available_now, "_knows_limits", lambda: request.param)
    return request.param


def run_queries(*queries: Query) -> tuple[list[Any], int]:
    """(what is returned, how many were started)."""
    left = list(queries)
    ran: list[Any] = run_available_now(lambda: left.pop(0))  # type: ignore[arg-type, return-value]
    return ran, len(queries) - len(left)


def test_pyspark_4_1_is_begun_again_until_a_run_reads_nothing(limits: bool) -> None:
    queries = Query(0, 2), Query(2, 4), Query(4, 4), Query(4, 4)

    ran, started = run_queries(*queries)

    assert started == (1 if limits else 3)
    assert ran == list(queries[:started])


def test_a_python_process_that_does_not_come_is_waited_for_again(limits: bool) -> None:
    late = Query(raises=f"[STREAM_FAILED] {NO_WORKER}.")
    good = Query(4, 4)

    assert run_queries(late, late, good) == ([good], 3)
    with pytest.raises(StreamingQueryException, match=NO_WORKER):
        run_queries(late, late, late, good)


def test_another_failure_is_raised_at_once(limits: bool) -> None:
    with pytest.raises(StreamingQueryException, match="records are lost"):
        run_queries(Query(raises="DataLossError: records are lost"), Query(4, 4))
