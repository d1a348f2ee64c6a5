"""The settings of one path in Google Cloud Storage, from those of Hadoop's `gs` in `spark.conf`.

Pure. The libraries follow Google's usual chain (GOOGLE_APPLICATION_CREDENTIALS, gcloud's file, the
machine's account). A path for which nothing names a user is left to Spark: they would ask the
network who they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import urlsplit

from pipelines.storage.location import (
    ATTEMPTS_MAX,
    CONNECT_TIMEOUT_S,
    NO_BUCKET,
    Causes,
    Location,
    split_uri,
)

PREFIX = "spark.hadoop.fs.gs."
VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
NO_USER = (
    f"neither {VARIABLE} nor `{PREFIX}auth.type` names a user that works without Spark; a key file "
    "of the settings must be the one of the variable"
)
RETRIES_S = 10
_KEY_FILE = "SERVICE_ACCOUNT_JSON_KEYFILE"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoogleLocation(Location):
    """A folder in a bucket. `endpoint`: a URL, "" for Google."""

    endpoint: str = ""
    anonymous: bool = False

    @property
    def where(self) -> str:
        return self.endpoint or "Google Cloud Storage"

    @property
    def lists_folders(self) -> bool:
        return False

    @property
    def causes(self) -> Causes:
        return _CAUSES


_CAUSES: Causes = (
    (
        r"[Bb]ucket.*(does not exist|not found)|notFound",
        NO_BUCKET,
    ),
    (
        r"PERMISSION_DENIED|UNAUTHENTICATED|HTTP status 40[13]|[Pp]ermission denied|OAuth2",
        f"{{where}} refuses the user; correct {VARIABLE}, or give the user the rights to list and "
        "read bucket `{bucket}`",
    ),
    (
        r"RESOURCE_EXHAUSTED|HTTP status (429|503)",
        "{where} asks for fewer requests; wait and repeat the command",
    ),
    (
        r"UNAVAILABLE|[Cc]ould ?n[o']t (connect|resolve)|[Cc]onnection refused",
        f"{{where}} does not answer; correct `{PREFIX}storage.root.url` or start the store",
    ),
)


def google_location(
    path: str, conf: Mapping[str, str], env: Mapping[str, str]
) -> GoogleLocation | None:
    """Read the settings for a `gs://` path; None if nothing names a user whom the libraries can be.
    Raises StorageError."""
    scheme, bucket, key = split_uri(path)
    kind = conf.get(f"{PREFIX}auth.type", "")
    file = conf.get(f"{PREFIX}auth.service.account.json.keyfile", "")
    # pyarrow takes a key file from the variable alone, so it must be the one that Spark takes.
    if kind == _KEY_FILE or (file and not kind):
        known = file == env.get(VARIABLE)
    else:
        known = kind in ("APPLICATION_DEFAULT", "COMPUTE_ENGINE", "UNAUTHENTICATED") or (
            not kind and bool(env.get(VARIABLE))
        )
    if not known:
        return None
    return GoogleLocation(
        uri=f"{scheme}://{bucket}/{key}",
        bucket=bucket,
        key=key,
        endpoint=conf.get(f"{PREFIX}storage.root.url", "").rstrip("/"),
        anonymous=kind == "UNAUTHENTICATED",
    )


def arrow_arguments(at: GoogleLocation) -> dict[str, object]:
    """The arguments of pyarrow's `GcsFileSystem`."""
    parts = urlsplit(at.endpoint)
    given = {"scheme": parts.scheme, "endpoint_override": parts.netloc}
    return {
        **{name: value for name, value in given.items() if value},
        "anonymous": at.anonymous,
        "retry_time_limit": timedelta(seconds=RETRIES_S),
    }


def delta_options(at: GoogleLocation) -> dict[str, str]:
    """The storage options of delta-rs."""
    given = {
        "GOOGLE_BASE_URL": at.endpoint,
        "GOOGLE_SKIP_SIGNATURE": "true" if at.anonymous else "",
        "GOOGLE_ALLOW_HTTP": "true" if at.endpoint.startswith("http://") else "",
    }
    return {
        **{name: value for name, value in given.items() if value},
        "connect_timeout": f"{CONNECT_TIMEOUT_S}s",
        "max_retries": str(ATTEMPTS_MAX - 1),
    }
