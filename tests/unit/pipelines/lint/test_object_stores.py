"""Warnings about S3: what a run needs and the file does not set."""

from __future__ import annotations

import pytest

from pipelines.lint.object_stores import SINGLE_DRIVER, store_notices
from tests.unit.pipelines.config.sections import read
from tests.unit.pipelines.config.test_validate import GOOD

S3A = "spark.hadoop.fs.s3a."
SETTLED = f"spark.delta.logStore.s3a.impl: {SINGLE_DRIVER}"


def notices(*conf: str, lake: str = "'s3a://b/lake'", checkpoint: str = "/ck") -> list[str]:
    text = GOOD.replace("/lake", lake).replace(
        "{ checkpoint: /ck }", f"{{ checkpoint: '{checkpoint}', conf: {{ {', '.join(conf)} }} }}"
    )
    found = list(store_notices(read(text)[0]))
    assert not any(each.stops_run for each in found)
    return [f"{each.path}: {each.message}" for each in found]


def test_a_file_without_s3_has_none():
    assert notices(f"{S3A}access.key: A", lake="/lake") == []


def test_the_log_store_is_the_user_s_to_name_once():
    (found,) = notices()

    assert found == (
        "spark.conf: s3a://b/lake: Delta's default for S3 is safe for one driver at a time: two "
        "would overwrite each other's commits. Set `spark.delta.logStore.s3a.impl: "
        "io.delta.storage.S3SingleDriverLogStore` if no other driver writes these tables, or "
        "io.delta.storage.S3DynamoDBLogStore with its package"
    )
    assert notices(SETTLED) == []


def test_the_log_store_is_that_of_the_path_s_scheme():
    (found,) = notices(SETTLED, lake="'s3://b/lake'")

    assert "`spark.delta.logStore.s3.impl: " in found


def test_a_checkpoint_needs_no_log_store():
    assert notices(lake="/lake", checkpoint="s3a://b/ck") == []


@pytest.mark.parametrize("lake", ["'s3a://b/lake'", "/lake"])
def test_a_store_of_its_own_needs_the_style_of_its_addresses(lake):
    endpoint = f"{S3A}endpoint: 'http://store:9000'"

    (found,) = notices(SETTLED, endpoint, lake=lake, checkpoint="s3a://b/ck")

    assert found.startswith(f"spark.conf.{S3A}endpoint: S3A puts the bucket into the host's name")
    assert notices(SETTLED, endpoint, f"{S3A}path.style.access: 'true'") == []
    assert notices(SETTLED, f"{S3A}endpoint: s3.eu-west-1.amazonaws.com") == []


def test_a_table_in_azure_needs_settings_of_its_user():
    lake = "'abfss://c@a.dfs.core.windows.net/lake'"

    (found,) = notices(lake=lake)

    assert "no setting `spark.hadoop.fs.azure.*` names the user of this store" in found
    key = "spark.hadoop.fs.azure.account.key.a.dfs.core.windows.net"
    assert notices(f"{key}: '${{secret:env:GONE}}'", lake=lake) == []


def test_half_a_key_is_named_and_a_secret_by_reference_is_there():
    (found,) = notices(SETTLED, f"{S3A}access.key: A")

    assert found.startswith(f"spark.conf.{S3A}access.key: add `{S3A}secret.key`")
    by_reference = f"{S3A}secret.key: '${{secret:env:GONE}}'"
    assert notices(SETTLED, f"{S3A}access.key: A", by_reference) == []
