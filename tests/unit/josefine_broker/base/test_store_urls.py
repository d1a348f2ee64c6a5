"""The form of URLs: what is refused before anything is opened, and what is left alone."""

from __future__ import annotations

import pytest

from josefine_broker.base.store_urls import malformed, without_password

AZURE = "CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("s3a://", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("s3:///lake", "names no bucket: expected s3://BUCKET/FOLDER"),
        ("s3a:lake/orders", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("s3a:/lake/orders", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("s3a:// lake/orders", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("s3a://{topic}/orders", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("s3a://127.0.0.1:9000/lake", "names no bucket: expected s3a://BUCKET/FOLDER"),
        ("gs:///t", "names no bucket: expected gs://BUCKET/FOLDER"),
        ("S3A://lake/t", "has its scheme in capitals: expected s3a://BUCKET/FOLDER"),
        ("abfss://lake/t", f"names no container and account: expected abfss://{AZURE}"),
        ("abfss://@acme/t", f"names no container and account: expected abfss://{AZURE}"),
        ("abfs://lake@/t", f"names no container and account: expected abfs://{AZURE}"),
        ("abfs://lake@.dfs/t", f"names no container and account: expected abfs://{AZURE}"),
        ("file://lake/orders", "names no folder of this machine: expected file:///FOLDER"),
        ("file:orders", "names no folder of this machine: expected file:///FOLDER"),
        (
            "s3a://KEY:se/cret@lake/orders",
            "has a user, whose keys belong into settings: expected s3a://BUCKET/FOLDER",
        ),
    ],
)
def test_a_malformed_url_has_what_it_lacks_and_the_right_form(url: str, why: str) -> None:
    assert malformed(url) == why


@pytest.mark.parametrize(
    "url",
    [
        *("", "lake/orders", "/lake/s3a:/orders", "./s3:/x", "C:\\lake", "a: b"),
        *("file:/lake", "file:///lake", "hdfs:///lake", "hdfs://name:8020/lake", "dbfs:/lake"),
        *("s3://b/x", "s3a://my.bucket-1/{topic}", "s3a://Old_Bucket/a@b:c", "gs://b_1/t"),
        *("abfss://$web@acme.dfs.core.windows.net/t", "abfs://lake@acme/t"),
        "abfss://lake@127.0.0.1:10000/t",
    ],
)
def test_valid_urls_and_what_is_none_are_left_alone(url: str) -> None:
    assert malformed(url) == ""


def test_a_message_has_no_user_of_a_url() -> None:
    assert without_password("s3a://KEY:se/cret@lake/t") == "s3a://***@lake/t"
    assert without_password("abfss://lake@acme/a:b@c") == "abfss://lake@acme/a:b@c"
