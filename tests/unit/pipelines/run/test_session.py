"""The paths of a file that Spark must be able to reach, and why Spark does not start."""

from __future__ import annotations

import os

import pytest

from pipelines.base.errors import SetupError
from pipelines.run.session import paths_of, start_named
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

TABLES = GOOD.replace(
    "transforms:\n",
    "  names: { type: delta, path: 's3a://b/names', schema: id INT }\ntransforms:\n",
).replace("trigger:", "dead_letter: { type: delta, path: 's3a://b/dead' }\ntrigger:")


def test_checkpoint_tables_lookups_and_dead_letters_are_reached_by_spark():
    assert paths_of(read(TABLES)[0]) == ["/ck", "/lake", "s3a://b/names", "s3a://b/dead"]
    assert paths_of(read(GOOD)[0]) == ["/ck", "/lake"]


def test_a_table_by_its_name_has_no_path():
    assert paths_of(read(GOOD.replace("path: /lake", "table: db.lake"))[0]) == ["/ck"]


JAVA = """\
:: loading settings
Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b;1]
\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)
\t... 7 more
"""


def test_why_java_ends_before_spark_starts_is_its_error_without_a_frame(monkeypatch):
    def ends(*_):
        os.write(2, JAVA.encode())
        raise RuntimeError("Java gateway process exited")

    monkeypatch.setattr("josefine_spark.sessions.session.session", ends)
    monkeypatch.delenv("JOSEFINE_DEBUG", raising=False)

    with pytest.raises(SetupError) as error:
        start_named("orders", {})

    assert str(error.value) == (
        "Spark does not start: Java gateway process exited; "
        'Exception in thread "main" java.lang.RuntimeException: [unresolved dependency: a#b;1]'
    )
