"""The S3 settings of a path, from Spark's settings and AWS's variables."""

from __future__ import annotations

import pytest

from pipelines.config.output_paths import in_s3
from pipelines.storage.location import StorageError, why_failed
from pipelines.storage.s3 import (
    S3Location,
    arrow_arguments,
    delta_options,
    s3_location,
)

S3A = "spark.hadoop.fs.s3a."
KEYS = {f"{S3A}access.key": "A", f"{S3A}secret.key": "B"}
STORE = {f"{S3A}endpoint": "http://store:9000"}


def location(env=(), path="s3a://lake/a//b/", **conf):
    given = {f"{S3A}{name.replace('__', '-').replace('_', '.')}": v for name, v in conf.items()}
    return there(s3_location(path, given, dict(env)))


def there(at: S3Location | None) -> S3Location:
    assert at is not None
    return at


def test_a_path_is_a_bucket_and_a_key_without_double_slashes():
    at = location()

    assert (at.uri, at.bucket, at.key) == ("s3a://lake/a/b", "lake", "a/b")
    assert in_s3("s3://b/x")
    assert not in_s3("/s3a")
    assert not in_s3("abfss://c@a/x")


def test_keys_of_the_file_come_before_those_of_the_environment():
    env = {"AWS_ACCESS_KEY_ID": "E", "AWS_SECRET_ACCESS_KEY": "F", "AWS_SESSION_TOKEN": "T"}

    of_file = there(s3_location("s3a://lake/t", KEYS, env))
    of_env = location(env)

    assert (of_file.access_key, of_file.secret_key, of_file.session_token) == ("A", "B", "")
    assert (of_env.access_key, of_env.secret_key, of_env.session_token) == ("E", "F", "T")


def test_settings_of_one_bucket_come_before_those_of_all():
    conf = {**KEYS, f"{S3A}bucket.lake.access.key": "L", f"{S3A}bucket.lake.secret.key": "M"}

    assert there(s3_location("s3a://lake/t", conf, {})).access_key == "L"
    assert there(s3_location("s3a://other/t", conf, {})).access_key == "A"


def test_without_keys_the_libraries_follow_the_usual_chain():
    assert "access_key" not in arrow_arguments(location())
    assert "AWS_ACCESS_KEY_ID" not in delta_options(location())
    assert location(aws_credentials_provider="x.y.ProfileCredentialsProvider").access_key == ""


def test_no_key_is_shown_by_a_location():
    at = there(
        s3_location("s3a://lake/t", {f"{S3A}access.key": "KK", f"{S3A}secret.key": "SS"}, {})
    )

    assert "KK" not in repr(at)
    assert "SS" not in repr(at)


@pytest.mark.parametrize(
    ("conf", "env", "endpoint", "region"),
    [
        ({}, {}, "", ""),
        ({}, {"AWS_DEFAULT_REGION": "eu-west-1"}, "", "eu-west-1"),
        ({"endpoint": "s3.amazonaws.com"}, {"AWS_REGION": "r"}, "", "r"),
        (
            {"endpoint": "s3.eu-central-1.amazonaws.com"},
            {},
            "https://s3.eu-central-1.amazonaws.com",
            "eu-central-1",
        ),
        ({"endpoint": "http://store:9000/"}, {}, "http://store:9000", "us-east-1"),
        (
            {"endpoint": "store:9000", "connection_ssl_enabled": "false"},
            {},
            "http://store:9000",
            "us-east-1",
        ),
        ({"endpoint": "store", "endpoint_region": "moon"}, {}, "https://store", "moon"),
        ({}, {"AWS_ENDPOINT_URL": "http://e:1"}, "http://e:1", "us-east-1"),
        (
            {},
            {"AWS_ENDPOINT_URL": "http://e:1", "AWS_ENDPOINT_URL_S3": "http://s:1"},
            "http://s:1",
            "us-east-1",
        ),
    ],
)
def test_endpoint_and_region(conf, env, endpoint, region):
    at = location(env, **conf)

    assert (at.endpoint, at.region) == (endpoint, region)


def test_the_bucket_is_in_the_host_only_where_path_style_is_turned_off():
    by_path = there(s3_location("s3a://lake/t", STORE, {}))
    by_host = there(s3_location("s3a://lake/t", {**STORE, f"{S3A}path.style.access": "false"}, {}))

    assert not arrow_arguments(by_path)["force_virtual_addressing"]
    assert delta_options(by_path)["AWS_ENDPOINT_URL"] == "http://store:9000"
    assert arrow_arguments(by_host)["force_virtual_addressing"]
    assert delta_options(by_host)["AWS_ENDPOINT_URL"] == "http://lake.store:9000"
    assert delta_options(by_host)["AWS_VIRTUAL_HOSTED_STYLE_REQUEST"] == "true"


def test_requests_of_nobody_are_not_signed():
    at = location(aws_credentials_provider="org.apache.x.AnonymousAWSCredentialsProvider")

    assert arrow_arguments(at)["anonymous"] is True
    assert delta_options(at)["AWS_SKIP_SIGNATURE"] == "true"


@pytest.mark.parametrize(
    ("path", "conf", "message"),
    [
        ("s3a:///t", {}, "s3a:///t names no bucket: expected s3a://BUCKET/FOLDER"),
        (
            "s3a://b/t",
            {f"{S3A}secret.key": "B"},
            f"`{S3A}secret.key` is set for bucket `b` without `{S3A}access.key`: set both, or "
            "none to use AWS's usual chain",
        ),
    ],
)
def test_what_no_library_could_use_is_refused_with_the_remedy(path, conf, message):
    with pytest.raises(StorageError) as refused:
        s3_location(path, conf, {})

    assert str(refused.value) == message


def test_credentials_of_a_java_class_are_left_to_spark():
    conf = {f"{S3A}aws.credentials.provider": "com.acme.Vault, x.ProfileCredentialsProvider"}

    assert s3_location("s3a://b/t", conf, {}) is None


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("When listing: AWS Error NETWORK_CONNECTION during x: curlCode: 7", "does not answer"),
        ("When reading: AWS Error ACCESS_DENIED during x: no", "refuses the user"),
        ("When reading: AWS Error INVALID_CLIENT_TOKEN_ID during x", "refuses the user"),
        ("When reading: AWS Error SIGNATURE_DOES_NOT_MATCH during x", "refuses the user"),
        ("When reading: AWS Error UNKNOWN (HTTP status 403) during x", "refuses the user"),
        ("Bucket 'lake' not found", "there is no bucket `lake`"),
        ("When listing under key 'TOKEN 403': AWS Error UNKNOWN (HTTP status 500)", "AWS fails: "),
    ],
)
def test_each_error_of_the_library_is_a_cause_by_its_code_and_not_by_a_name(error, cause):
    assert cause in why_failed(location(), error)


def test_an_unknown_error_keeps_its_first_line():
    assert why_failed(location(), "odd\nmore") == "s3a://lake/a/b: AWS fails: odd"
