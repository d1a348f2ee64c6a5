"""Warnings about tables by name: what their catalog needs and the file does not set."""

from __future__ import annotations

import pytest

from pipelines.inspect.preflight import Facts, findings
from pipelines.lint.catalogs import catalog_notices
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

HIVE = "spark.sql.catalogImplementation: hive"
METASTORE = "spark.hadoop.hive.metastore.uris: 'thrift://h:9083'"
WAREHOUSE = "spark.sql.warehouse.dir: /lake"
UNITY = "spark.sql.catalog.main: io.unitycatalog.spark.UCSingleCatalog"


def pipeline(*conf: str, table: str = "lake.orders"):
    text = GOOD.replace("path: /lake", f"table: {table}")
    assert text != GOOD
    more = f"{{ checkpoint: /ck, conf: {{ {', '.join(conf)} }} }}"
    return read(text.replace("{ checkpoint: /ck }", more))[0]


CASES = [
    ((), "lake.orders", ["is in memory"]),
    ((), "orders", ["is in memory"]),
    ((HIVE,), "lake.orders", ["Hive keeps its tables in `metastore_db`", "`spark-warehouse` of"]),
    ((HIVE, METASTORE), "lake.orders", ["`spark-warehouse` of the working folder"]),
    ((HIVE, METASTORE, WAREHOUSE), "lake.orders", []),
    (("spark.sql.catalog.spark_catalog: com.example.Own",), "lake.orders", []),
    ((), "main.lake.orders", ["no catalog `main`: add `spark.sql.catalog.main` with its class"]),
    (("spark.sql.catalog.main: com.example.Own",), "main.lake.orders", []),
    ((HIVE, METASTORE, WAREHOUSE), "'`lake.of.all`.orders'", []),
    (("spark.sql.catalog.main: com.example.Own",), "main.lake.`or.ders`", []),
    ((UNITY,), "main.lake.orders", ["`spark.sql.catalog.main.uri`", "`spark.sql.catalog.main.tok"]),
    ((UNITY, "spark.sql.catalog.main.uri: 'http://h'", "spark.sql.catalog.main.token: ''"),
     "main.lake.orders", []),
]  # fmt: skip


@pytest.mark.parametrize(("conf", "table", "expected"), CASES)
def test_a_missing_setting_of_a_catalog_is_named_without_spark(conf, table, expected):
    found = list(catalog_notices(pipeline(*conf, table=table)))

    assert not any(each.stops_run for each in found)
    assert {each.path for each in found} <= {"sinks.lake.table"}
    assert len(found) == len(expected)
    for each, words in zip(found, expected, strict=True):
        assert words in each.message
        assert each.message.startswith(f"{table}: ")


def test_a_file_whose_tables_have_paths_has_none():
    assert list(catalog_notices(read(GOOD)[0])) == []


def test_check_names_it_too():
    found = findings(pipeline(), Facts(sources={}, folders=()))

    assert any("PySpark's catalog is in memory" in each.what for each in found)
