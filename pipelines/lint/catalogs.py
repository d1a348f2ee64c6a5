"""Warnings about tables that a catalog finds by name: the settings that it needs.

Pure. They refuse nothing: `spark-defaults.conf` and `hive-site.xml` may have what the file lacks.
A setting that is there, whatever its value, settles its question.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pipelines.base.errors import Place, Problem
from pipelines.model.pipeline import Pipeline

IMPLEMENTATION = "spark.sql.catalogImplementation"
WAREHOUSE = "spark.sql.warehouse.dir"
CATALOG = "spark.sql.catalog."
SESSION_CATALOG = "spark_catalog"
METASTORES = (
    "spark.hadoop.hive.metastore.uris",
    "spark.hive.metastore.uris",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hive.javax.jdo.option.ConnectionURL",
)
_UNITY = "io.unitycatalog."
_PART = re.compile(r"`[^`]*`|[^.`]+")
"""Of a table's name; one in backquotes may have dots."""


def catalog_notices(pipeline: Pipeline) -> Iterator[Problem]:
    """The settings that are missing for the catalogs of a file, each once."""
    asked: set[str] = set()
    for place, path, table in _named(pipeline):
        catalog = _catalog_of(table)
        if catalog not in asked:
            asked.add(catalog)
            for message in _missing(pipeline, catalog, table):
                yield Problem(place=place, path=path, message=message, stops_run=False)


def _named(pipeline: Pipeline) -> Iterator[tuple[Place, str, str]]:
    """(place, path, name) of the tables that Spark's catalogs find."""
    for sink in pipeline.sinks.values():
        if sink.table:
            yield sink.place, f"sinks.{sink.name}.table", sink.table
    for lookup in pipeline.lookups.values():
        if lookup.table:
            yield lookup.place, f"sources.{lookup.name}.table", lookup.table
    if pipeline.dead_letter_table:
        first = next(iter(pipeline.sinks.values())).place
        yield first, "dead_letter.table", pipeline.dead_letter_table


def _catalog_of(table: str) -> str:
    """A name of three parts begins with its catalog; shorter ones are of the session's."""
    parts = _PART.findall(table)
    return str(parts[0]).strip("`") if len(parts) > 2 else SESSION_CATALOG


def _missing(pipeline: Pipeline, catalog: str, table: str) -> Iterator[str]:
    given = {*pipeline.conf, *pipeline.conf_places}
    key = f"{CATALOG}{catalog}"
    if catalog != SESSION_CATALOG and key not in given:
        yield (
            f"{table}: Spark knows no catalog `{catalog}`: add `{key}` with its class, and the "
            f"settings `{key}.*` that it needs"
        )
    if pipeline.conf.get(key, "").startswith(_UNITY):
        for word in ("uri", "token"):
            if f"{key}.{word}" not in given:
                yield f"{table}: Unity Catalog asks for `{key}.{word}`: add it"
    if catalog == SESSION_CATALOG and key not in given:
        yield from _missing_in_session(given, table)


def _missing_in_session(given: set[str], table: str) -> Iterator[str]:
    """PySpark's own catalog: in memory, or Hive's."""
    if IMPLEMENTATION not in given:
        yield (
            f"{table}: PySpark's catalog is in memory, so the next run does not find the table: "
            f"add `{IMPLEMENTATION}: hive` and a metastore, or write to a `path`"
        )
        return
    if not given.intersection(METASTORES):
        yield (
            f"{table}: without `{METASTORES[0]}` Hive keeps its tables in `metastore_db` of the "
            "working folder, for one run at a time: add the address of a metastore"
        )
    if WAREHOUSE not in given:
        yield (
            f"{table}: without `{WAREHOUSE}` a new table is made in `spark-warehouse` of the "
            "working folder: add it, unless the metastore has the database with its location"
        )
