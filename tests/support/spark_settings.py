"""The settings of a Spark session, put back after a test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_known: dict[int, Mapping[str, str]] = {}
"""Hash of settings → the settings, of one session: they are the same before most tests."""


@contextmanager
def settings_kept(spark: SparkSession) -> Iterator[None]:
    """Afterwards the session has the settings that it had, whatever was set or unset within.

    Where nothing was, that costs four calls of the JVM, which hashes its map of settings itself.
    Static settings cannot be set, so they need not be put back.
    """
    before = _hash(spark)
    if before not in _known:
        _known.clear()
        _known[before] = spark.conf.getAll
    settings = _known[before]
    yield
    if _hash(spark) == before:
        return
    now: Mapping[str, str] = spark.conf.getAll
    for name in now.keys() - settings.keys():
        spark.conf.unset(name)
    for name, value in settings.items():
        if now.get(name) != value:
            spark.conf.set(name, value)


def _hash(spark: SparkSession) -> int:
    conf: Any = spark.conf
    return int(conf._jconf.getAll().hashCode())
