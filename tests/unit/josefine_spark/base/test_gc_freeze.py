"""What a process below Spark's daemon has loaded is not walked through by its collections."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec

import pytest

pytest.importorskip("pyspark.sql.datasource")

from josefine_spark.base.gc_freeze import DAEMON, freeze_loaded
from josefine_spark.source import JosefineDataSource

OPTIONS = {"bootstrapservers": "127.0.0.1:1", "subscribe": "t"}


@pytest.fixture(autouse=True)
def thawed() -> Iterator[None]:
    freeze_loaded.cache_clear()
    gc.unfreeze()
    yield
    freeze_loaded.cache_clear()
    gc.unfreeze()


@pytest.fixture
def below_the_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec(DAEMON, None))


@pytest.mark.usefixtures("below_the_daemon")
def test_telling_the_columns_leaves_nothing_to_walk_through() -> None:
    before = len(gc.get_objects())

    JosefineDataSource(OPTIONS).schema()

    assert gc.get_freeze_count() > before // 2
    assert len(gc.get_objects()) < before // 2


@pytest.mark.usefixtures("below_the_daemon")
def test_what_a_process_makes_later_is_collected() -> None:
    freeze_loaded()
    frozen = gc.get_freeze_count()

    freeze_loaded()

    # Of what was there some may go meanwhile.
    assert 0 < gc.get_freeze_count() <= frozen


def test_a_process_that_is_not_below_the_daemon_is_left_alone() -> None:
    JosefineDataSource(OPTIONS).schema()

    assert gc.get_freeze_count() == 0
