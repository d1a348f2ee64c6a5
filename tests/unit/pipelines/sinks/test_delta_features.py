"""What a table's features need of an existing table and of Spark, without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JError

from pipelines.base.errors import Place, RunError
from pipelines.config.feature_keywords import FEATURE_WORDS
from pipelines.lint.table_features import jar_problems
from pipelines.model.table_features import FEATURES, Wish, wishes_of
from pipelines.sinks import delta_features

HERE = Place(file="f.yaml", line=1, column=1)
UNIFORM = next(each for each in FEATURES if each.keyword == "uniform")


def sink(*wishes: Wish, partition_by: tuple[str, ...] = ()) -> Any:
    return SimpleNamespace(name="s", told="/t", wishes=wishes, partition_by=partition_by)


def test_each_feature_is_a_keyword():
    assert [*FEATURE_WORDS] == [each.keyword for each in FEATURES]


@pytest.mark.parametrize(("jars", "count"), [("", 1), ("io.delta:delta-iceberg_2.13:4", 0)])
def test_lint_misses_the_jar_of_a_feature(jars, count):
    pipeline: Any = SimpleNamespace(conf={"spark.jars.packages": jars})

    found = [*jar_problems(pipeline, sink(*wishes_of(UNIFORM, "iceberg", HERE)))]

    assert [each.path for each in found] == ["sinks.s.features.uniform"] * count


def test_a_run_looks_for_the_class_of_the_jar():
    def load(name: str) -> None:
        raise Py4JError(f"no class {name}")

    loader = SimpleNamespace(loadClass=load)
    thread = SimpleNamespace(getContextClassLoader=lambda: loader)
    java = SimpleNamespace(
        lang=SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread))
    )
    spark: Any = SimpleNamespace(_jvm=SimpleNamespace(java=java))

    with pytest.raises(RunError, match="needs the jar delta-iceberg"):
        delta_features.refuse_missing_jars(spark, sink(*wishes_of(UNIFORM, "iceberg", HERE)))
    delta_features.refuse_missing_jars(spark, sink(*wishes_of(FEATURES[0], "true", HERE)))


def test_an_existing_table_gets_what_it_lacks_unless_its_partitions_differ(monkeypatch):
    monkeypatch.setattr(delta_features, "layout_of", lambda spark, path: ([], ["k"]))
    monkeypatch.setattr(delta_features, "settings_of", lambda spark, path: {})
    wishes = tuple(wishes_of(FEATURES[0], "true", HERE))
    spark: Any = None

    due = delta_features.settings_due(spark, sink(*wishes, partition_by=("K",)), "/t")
    assert due == (("delta.enableChangeDataFeed", "true"),)
    with pytest.raises(RunError, match="is partitioned by k, the file has `partition_by` other"):
        delta_features.settings_due(spark, sink(*wishes, partition_by=("other",)), "/t")
