"""The columns of a source are those of the connector."""

from __future__ import annotations

import pytest

from pipelines.sources.columns import columns_ddl

columns = pytest.importorskip("josefine_spark.read.columns")


@pytest.mark.parametrize("headers", [True, False])
def test_a_file_has_the_columns_and_types_that_the_connector_reads(headers):
    fields = [*columns._SPARK_FIELDS, *(columns._SPARK_OPTIONAL[:1] if headers else [])]
    connector = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)

    found = columns_ddl(headers=headers).lower()

    assert found.replace(" ", "") == connector.lower().replace(" ", "")
