"""The list of settings: of the Spark and Delta that are installed, and what is told by it."""

from __future__ import annotations

import re
from pathlib import Path
from zipfile import ZipFile

import pyspark
import pytest

from josefine_spark.sessions.session import DEFAULTS, LOCAL_DEFAULTS
from pipelines.spark.settings import IS_DIRECT, known, versions, why_unknown
from tests.spark_keys import headline

HADOOP_JAR = next(Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar"))
HADOOPS = {
    *re.findall(
        r"<name>(fs\.(?:s3a|azure|gs)\.[^<]*)<",
        ZipFile(HADOOP_JAR).read("core-default.xml").decode(),
    ),
    "fs.s3a.endpoint.fips",
    "fs.s3a.session.tokens.ours",
}
"""Settings that Hadoop documents, and some that it does not."""


def test_the_list_is_of_the_versions_that_are_installed():
    """Else: python -m tests.spark_keys."""
    assert f"# {versions()}" == headline()


@pytest.mark.parametrize(
    "key",
    [
        *DEFAULTS,
        *LOCAL_DEFAULTS,
        "spark.sql.shuffle.partitions",
        "spark.executor.memory",
        "spark.databricks.delta.schema.autoMerge.enabled",
        "spark.databricks.delta.properties.defaults.enableChangeDataFeed",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.bucket.lake.endpoint",
        *(f"spark.hadoop.{key}" for key in HADOOPS),
        "spark.sql.catalog.lake.warehouse",
        "spark.executorEnv.HOME",
        "spark.ours.anything",
        IS_DIRECT,
    ],
)
def test_settings_that_there_are_or_may_be_are_let_through(key):
    assert why_unknown(key) is None


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("spark.josefine.directcommit",
         "{v} know no such setting; did you mean `spark.josefine.directCommits`?"),
        ("spark.executor.memmory",
         "{v} know no such setting; did you mean `spark.executor.memory`?"),
        ("spark.SQL.shuffle.partitions",
         "{v} know no such setting; did you mean `spark.sql.shuffle.partitions`?"),
        ("spark.sql.nothing.of.the.sort", "{v} know no such setting"),
        ("sql.shuffle.partitions", "Spark ignores what does not begin with `spark.`; did you mean "
         "`spark.sql.shuffle.partitions`?"),
        ("spark.hadoop.fs.s3a.enpoint",
         "Hadoop ignores it; did you mean `spark.hadoop.fs.s3a.endpoint`?"),
        ("spark.hadoop.fs.s3a.path.style.acess",
         "Hadoop ignores it; did you mean `spark.hadoop.fs.s3a.path.style.access`?"),
        ("fs.s3a.secret.key", "Spark ignores what does not begin with `spark.`; one of Hadoop's is "
         "written `spark.hadoop.fs.s3a.secret.key`"),
    ],
)  # fmt: skip
def test_a_slip_is_told_with_the_nearest_setting(key, message):
    assert why_unknown(key) == message.format(v=versions())


def test_the_list_has_thousands_of_names_and_no_class_among_them():
    assert len(known()) > 2_000
    assert not [key for key in known() if not key.startswith("spark.") or key.endswith(".scala")]
