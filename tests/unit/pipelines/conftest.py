"""Fixtures of the pipelines' unit tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.pipelines.tiny_spark import functions


@pytest.fixture(scope="module")
def tiny_spark() -> Iterator[None]:
    """Columns that our code makes are those of `tiny_spark`: no JVM."""
    pytest.importorskip("pyspark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pyspark.sql.functions", functions)
        yield
