"""The package of S3A: added when a path needs it and nobody has brought a jar."""

from __future__ import annotations

import pytest

from josefine_spark.sessions.session import delta_conf, hadoop_version
from josefine_spark.sessions.store_packages import S3A, store_conf

PACKAGE = "org.apache.hadoop:hadoop-aws:3.5.0"
PATHS = ["/ck", "s3a://lake/t"]


def decided(paths=PATHS, hadoop="3.5.0", on_classpath=(), **settings):
    given = {name.replace("_", "."): value for name, value in settings.items()}
    return store_conf(paths, given, hadoop, on_classpath=on_classpath)


def test_a_path_in_s3_adds_the_package_of_spark_s_hadoop():
    assert decided() == {"spark.jars.packages": PACKAGE}


def test_packages_of_the_caller_stay():
    assert decided(spark_jars_packages="a:b:1")["spark.jars.packages"] == f"a:b:1,{PACKAGE}"


def test_the_scheme_s3_gets_the_file_system_that_hadoop_lacks_for_it():
    found = decided(["s3://lake/t"])

    assert found == {"spark.hadoop.fs.s3.impl": S3A, "spark.jars.packages": PACKAGE}


@pytest.mark.parametrize("paths", [[], ["/a"], ["file:/a"], ["hdfs://n/t"]])
def test_other_paths_add_nothing(paths):
    assert decided(paths) == {}


@pytest.mark.parametrize(
    "settings",
    [
        {"spark_jars": "/opt/hadoop-aws-3.5.0.jar"},
        {"spark_jars_packages": "org.apache.hadoop:hadoop-aws:3.4.1"},
        {"spark_driver_extraClassPath": "/opt/hadoop-aws.jar"},
        {"spark_hadoop_fs_s3a_impl": "com.acme.FileSystem"},
        {"on_classpath": ["hadoop-aws"]},
        {"hadoop": None},
    ],
)
def test_what_the_caller_brings_is_left_alone(settings):
    assert decided(**settings) == {}


@pytest.mark.parametrize("scheme", ["abfs", "abfss"])
def test_a_path_in_azure_adds_the_package_of_spark_s_hadoop(scheme):
    paths = [f"{scheme}://c@a.dfs.core.windows.net/t", f"{scheme}://c@a.dfs.core.windows.net/u"]

    assert decided(paths) == {"spark.jars.packages": "org.apache.hadoop:hadoop-azure:3.5.0"}
    assert decided(paths, on_classpath=["hadoop-azure"]) == {}
    assert decided(paths, **{f"spark_hadoop_fs_{scheme}_impl": "com.acme.Files"}) == {}


def test_a_path_in_google_s_store_adds_the_package_of_spark_s_hadoop():
    found = decided(["gs://b/t"])

    assert found == {"spark.jars.packages": "org.apache.hadoop:hadoop-gcp:3.5.0"}
    assert decided(["gs://b/t"], spark_jars_packages="com.google:gcs-connector:3") == {}
    assert decided(["gs://b/t"], on_classpath=["gcs-connector"]) == {}


def test_a_hadoop_without_google_s_file_system_adds_none():
    assert decided(["gs://b/t"], hadoop="3.4.2") == {}


def test_paths_in_several_stores_add_a_package_each():
    found = decided(["s3a://b/t", "abfss://c@a/t"])["spark.jars.packages"]

    assert found == f"{PACKAGE},org.apache.hadoop:hadoop-azure:3.5.0"


def test_the_version_is_that_of_the_jar_of_the_installed_pyspark():
    version = hadoop_version()

    assert version is not None
    assert [part.isdigit() for part in version.split(".")] == [True] * 3


def test_what_pyspark_has_is_excluded_and_hadoop_aws_is_not(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))  # without Maven
    monkeypatch.delenv("JOSEFINE_SPARK_JARS", raising=False)

    excludes = delta_conf({"spark.jars.packages": PACKAGE})["spark.jars.excludes"].split(",")

    assert "org.apache.hadoop:*" not in excludes
    assert "org.apache.hadoop:hadoop-client-api" in excludes
    assert "org.apache.hadoop:*" in delta_conf({})["spark.jars.excludes"]
