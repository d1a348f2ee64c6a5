"""The S3 settings of one path, from the settings of S3A in `spark.conf` and from AWS's variables.

Pure. Spark, pyarrow and delta-rs must reach the same store with the same user, so the settings of
Hadoop's S3A are the source, with its settings for one bucket (`fs.s3a.bucket.NAME.`). AWS's
variables fill what they leave open; without keys the libraries follow AWS's usual chain: variables,
profile, web identity, role of the machine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from pipelines.storage.location import (
    ATTEMPTS_MAX,
    CONNECT_TIMEOUT_S,
    NO_BUCKET,
    Causes,
    Location,
    StorageError,
    split_uri,
)

PREFIX = "spark.hadoop.fs.s3a."
ENDPOINT = f"{PREFIX}endpoint"
PATH_STYLE = f"{PREFIX}path.style.access"

NO_USER = f"the provider in `{PREFIX}aws.credentials.provider` is one that only Java has"

_ANONYMOUS = "AnonymousAWSCredentialsProvider"
_USUAL = (
    "ContainerCredentialsProvider",
    "DefaultCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
    "IAMInstanceCredentialsProvider",
    "InstanceProfileCredentialsProvider",
    "ProfileCredentialsProvider",
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "WebIdentityTokenFileCredentialsProvider",
)
"""Providers of AWS's usual chain, and those that read the keys of the settings."""

_REGION = re.compile(r"s3[.-]([a-z]{2,}(?:-[a-z]+)+-\d)\.amazonaws\.com")
_CENTRAL = "s3.amazonaws.com"


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Location(Location):
    """A folder in a bucket. `endpoint`: a URL, "" for AWS. `region`: "" if nothing names it.

    `access_key`: "" for AWS's usual chain. `virtual`: the bucket is part of the host's name.
    """

    endpoint: str = ""
    region: str = ""
    access_key: str = field(default="", repr=False)
    secret_key: str = field(default="", repr=False)
    session_token: str = field(default="", repr=False)
    anonymous: bool = False
    virtual: bool = False

    @property
    def where(self) -> str:
        return self.endpoint or "AWS"

    @property
    def causes(self) -> Causes:
        return _CAUSES


def s3_location(path: str, conf: Mapping[str, str], env: Mapping[str, str]) -> S3Location | None:
    """Read the settings for an `s3://` or `s3a://` path; None if its provider of credentials is
    one that only Java has. Raises StorageError."""
    scheme, bucket, key = split_uri(path)
    settings = _settings(conf, bucket)
    providers = _providers(settings)
    if not {_ANONYMOUS, *_USUAL}.issuperset(providers):
        return None
    anonymous = providers[:1] == [_ANONYMOUS]
    access, secret, token = _keys(settings, env, bucket) if not anonymous else ("", "", "")
    endpoint = _endpoint(settings, env)
    style = settings.get("path.style.access", "").lower()
    named = _REGION.search(endpoint)
    return S3Location(
        uri=f"{scheme}://{bucket}/{key}",
        bucket=bucket,
        key=key,
        endpoint=endpoint,
        # A store that is not AWS has one region, whose name it rarely looks at.
        region=settings.get("endpoint.region")
        or env.get("AWS_REGION")
        or env.get("AWS_DEFAULT_REGION")
        or (named[1] if named else "us-east-1" if endpoint else ""),
        access_key=access,
        secret_key=secret,
        session_token=token,
        anonymous=anonymous,
        virtual=bool(endpoint) and style == "false",
    )


def arrow_arguments(at: S3Location) -> dict[str, object]:
    """The arguments of pyarrow's `S3FileSystem`, without its retries. The region is given."""
    scheme, _, host = at.endpoint.partition("://")
    given = {
        "access_key": at.access_key,
        "secret_key": at.secret_key,
        "session_token": at.session_token,
        "region": at.region,
        "endpoint_override": host,
        "scheme": scheme,
    }
    return {
        **{name: value for name, value in given.items() if value},
        "anonymous": at.anonymous,
        "connect_timeout": CONNECT_TIMEOUT_S,
        "force_virtual_addressing": at.virtual,
    }


def delta_options(at: S3Location) -> dict[str, str]:
    """The storage options of delta-rs. The region is given."""
    endpoint = at.endpoint
    if at.virtual:  # object_store then expects the bucket in the endpoint's host
        scheme, _, host = endpoint.partition("://")
        endpoint = f"{scheme}://{at.bucket}.{host}"
    given = {
        "AWS_ACCESS_KEY_ID": at.access_key,
        "AWS_SECRET_ACCESS_KEY": at.secret_key,
        "AWS_SESSION_TOKEN": at.session_token,
        "AWS_REGION": at.region,
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ALLOW_HTTP": "true" if endpoint.startswith("http://") else "",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "true" if at.virtual else "",
        "AWS_SKIP_SIGNATURE": "true" if at.anonymous else "",
    }
    return {
        **{name: value for name, value in given.items() if value},
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "max_retries": str(ATTEMPTS_MAX - 1),
    }


_CAUSES: Causes = (
    (
        r"AWS Error SLOW_DOWN|SlowDown|HTTP status 503",
        "{where} asks for fewer requests (503 SlowDown); wait and repeat the command",
    ),
    (
        r"AWS Error NETWORK_CONNECTION",
        f"{{where}} does not answer; correct `{ENDPOINT}` or AWS_ENDPOINT_URL, or start the store",
    ),
    (
        r"AWS Error NO_SUCH_BUCKET|^Bucket '[^']*' not found",
        NO_BUCKET,
    ),
    (
        r"AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|\w*(SIGNATURE|TOKEN)\w*)|HTTP status 403",
        f"{{where}} refuses the user; correct the keys `{PREFIX}access.key` and "
        f"`{PREFIX}secret.key`, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or the profile, or "
        "give the user the rights to list and read bucket `{bucket}`",
    ),
)


def _settings(conf: Mapping[str, str], bucket: str) -> dict[str, str]:
    """S3A's settings by their short names; those of the bucket come before those of all."""
    own = f"{PREFIX}bucket.{bucket}."
    found = {k.removeprefix(PREFIX): v for k, v in conf.items() if k.startswith(PREFIX)}
    return found | {k.removeprefix(own): v for k, v in conf.items() if k.startswith(own)}


def _keys(settings: Mapping[str, str], env: Mapping[str, str], bucket: str) -> tuple[str, str, str]:
    access, secret = settings.get("access.key", ""), settings.get("secret.key", "")
    if bool(access) != bool(secret):
        given, missing = ("access", "secret") if access else ("secret", "access")
        raise StorageError(
            f"`{PREFIX}{given}.key` is set for bucket `{bucket}` without `{PREFIX}{missing}.key`: "
            "set both, or none to use AWS's usual chain"
        )
    if access:
        return access, secret, settings.get("session.token", "")
    access, secret = env.get("AWS_ACCESS_KEY_ID", ""), env.get("AWS_SECRET_ACCESS_KEY", "")
    if access and secret:
        return access, secret, env.get("AWS_SESSION_TOKEN", "")
    return "", "", ""


def _providers(settings: Mapping[str, str]) -> list[str]:
    """The class names of the providers of credentials, without their packages."""
    names = settings.get("aws.credentials.provider", "").split(",")
    return [name.strip().rpartition(".")[2] for name in names if name.strip()]


def _endpoint(settings: Mapping[str, str], env: Mapping[str, str]) -> str:
    """The URL of a store; "" for AWS's central one, which sends each bucket to its region."""
    found = settings.get("endpoint", "")
    if not found:
        found = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or ""
    if not found:
        return ""
    if "://" not in found:
        is_plain = settings.get("connection.ssl.enabled", "true").lower() == "false"
        found = f"http{'' if is_plain else 's'}://{found}"
    return "" if urlsplit(found).netloc == _CENTRAL else found.rstrip("/")
