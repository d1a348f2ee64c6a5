"""Features of a Delta table: what a new one gets, what an existing one gets, what is refused."""

from __future__ import annotations

import pytest

from pipelines.base.errors import Place
from pipelines.model.table_features import (
    FEATURES,
    PLAIN,
    Wish,
    created_with,
    due,
    other_partitions,
    why_refused,
    wishes_of,
)

HERE = Place(file="f.yaml", line=1, column=1)
BY_NAME = {each.keyword: each for each in FEATURES}


def wishes(keyword: str, value: str = "true") -> tuple[Wish, ...]:
    return tuple(wishes_of(BY_NAME[keyword], value, HERE))


def test_a_new_table_has_the_files_properties_and_they_go_before_the_runs():
    own = Wish(key="delta.checkpointInterval", value="7", word="properties", place=HERE)

    assert created_with([("delta.checkpointInterval", "100")], [own, *wishes("row_tracking")]) == (
        ("delta.checkpointInterval", "7"), ("delta.enableRowTracking", "true"),
    )  # fmt: skip


def test_uniform_brings_what_delta_wants_with_it():
    assert {wish.key for wish in wishes("uniform", "iceberg")} == {
        "delta.universalFormat.enabledFormats",
        "delta.enableIcebergCompatV2",
        "delta.columnMapping.mode",
    }


@pytest.mark.parametrize(
    ("have", "value", "sets"),
    [
        ({}, "true", True),
        ({}, "false", False),
        ({"delta.enableChangeDataFeed": "true"}, "true", False),
        ({"delta.enableChangeDataFeed": "TRUE"}, "true", False),
        ({"delta.enableChangeDataFeed": "true"}, "false", True),
    ],
)
def test_an_existing_table_gets_a_property_that_it_lacks(have, value, sets):
    found = due(have, wishes("change_data_feed", value), "t")

    assert found == ((("delta.enableChangeDataFeed", value),) if sets else ())


@pytest.mark.parametrize("feature", [each for each in FEATURES if each.why_new])
def test_an_existing_table_keeps_its_readers(feature):
    value = feature.choices[0] if feature.choices else feature.on
    found = due({}, (*wishes("auto_compact"), *wishes_of(feature, value, HERE)), "delta.`/t`")

    assert isinstance(found, str)
    assert f"`features.{feature.keyword}`" in found
    assert feature.why_new in found
    assert f"ALTER TABLE delta.`/t` SET TBLPROPERTIES ('{feature.key}' = '{value}'" in found
    assert due({k.key: k.value for k in wishes_of(feature, value, HERE)},
               tuple(wishes_of(feature, value, HERE)), "t") == ()  # fmt: skip
    # Off, where the table never had it, is nothing to do.
    if not feature.choices:
        assert due({}, tuple(wishes_of(feature, feature.off, HERE)), "t") == ()


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("team", "x", ""),
        ("delta.checkpointInterval", "7", ""),
        ("delta.logRetentionDuration", "interval 7 days", ""),
        ("delta.logRetentionDuration", "2 weeks", ""),
        ("delta.logRetentionDuration", "interval 6 days", "finds its end offsets"),
        ("delta.logRetentionDuration", "INTERVAL 100 hours", "expected interval 7 days"),
        ("delta.enableChangeDataFeed", "true", "use `features: { change_data_feed: ... }`"),
        ("delta.enableIcebergCompatV2", "true", "use `features: { uniform: ... }`"),
        ("delta.columnMapping.mode", "name", "use `features: { column_mapping: ... }`"),
        ("delta.setTransactionRetentionDuration", "7 days", "a batch could be written twice"),
        ("delta.feature.deletionVectors", "supported", "use `features`"),
        ("delta.constraints.c", "id > 0", "use `constraints`"),
        ("delta.minReaderVersion", "3", "use `features`"),
        ("delta.targetFileSize", "1", "`file_size` of `optimize`"),
        ("delta.checkpointIntervall", "7", "no property `delta.checkpointIntervall`"),
        ("DELTA.checkpointInterval", "7", "no property"),
    ],
)
def test_a_property_that_is_not_the_files_to_set_is_refused(key, value, why):
    found = why_refused(key, value, "")

    assert (found == "") is (why == "")
    assert why in found


def test_no_feature_is_a_plain_property():
    assert not {each.key for each in FEATURES} & {*PLAIN}


@pytest.mark.parametrize(
    ("have", "wants", "said"),
    [
        (["k"], [], ""),
        (["K"], ["k"], ""),
        ([], ["k"], "has no partitions"),
        (["a", "b"], ["b", "a"], "is partitioned by a, b, the file has `partition_by` b, a"),
    ],
)
def test_partitions_of_a_table_never_change(have, wants, said):
    found = other_partitions(have, wants)

    assert found.startswith(said)
    assert bool(found) is bool(said)
