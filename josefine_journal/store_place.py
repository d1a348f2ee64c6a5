"""A folder of stores, or a file in one: a path of this machine, or an object in S3.

The settings of S3 are AWS's variables, or what AWS's usual chain finds; `AWS_ENDPOINT_URL_S3` and
`AWS_ENDPOINT_URL` name a store that is not AWS. Writers need no lock: delta-rs puts each commit on
the condition that it does not exist.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from josefine_broker.base.store_urls import S3_SCHEMES, malformed, without_password
from josefine_journal.errors import StoreError

ATTEMPTS_MAX = 4
"""Of one request; the last answer is the error."""
CONNECT_S = 3

Stamp = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectPlace:
    """An object or a folder in S3, with the few operations of a `Path` that stores use."""

    scheme: str
    key: str
    """`bucket/key`, as pyarrow takes it."""
    system: Any = field(repr=False, compare=False)
    options: Mapping[str, str] = field(repr=False, compare=False)
    """For delta-rs."""

    def __truediv__(self, name: str) -> ObjectPlace:
        return replace(self, key=f"{self.key}/{name}")

    def __str__(self) -> str:
        return f"{self.scheme}://{self.key}"

    def absolute(self) -> ObjectPlace:
        return self

    def exists(self) -> bool:
        """Raises OSError."""
        return self.stamp() is not None

    def stamp(self) -> Stamp | None:
        """Changes with the object; None if there is none. Raises OSError."""
        from pyarrow.fs import FileType

        found = self.system.get_file_info(self.key)
        if found.type != FileType.File:
            return None
        return 0, found.mtime_ns, found.size

    def opened(self) -> Any:
        """A file to read from. Raises OSError."""
        return self.system.open_input_file(self.key)

    def write_bytes(self, data: bytes | memoryview) -> None:
        """Raises OSError."""
        with self.system.open_output_stream(self.key) as stream:
            stream.write(data)


Place = Path | ObjectPlace


def place_of(root: Place | str) -> Place:
    """The folder of that path or URI. Opens nothing. Raises StoreError."""
    if not isinstance(root, str):
        return root
    scheme, separator, rest = root.partition("://")
    if not separator and not malformed(root) and not root.startswith("file:"):
        return Path(root)
    key = "/".join(part for part in rest.split("/") if part)
    if scheme not in S3_SCHEMES or not key or malformed(root):
        raise StoreError(
            f"{without_password(root)}: a store of journals is a folder of this machine or "
            "s3://BUCKET/FOLDER"
        )
    settings = s3_settings(os.environ)
    return ObjectPlace(
        scheme="s3", key=key, system=_system(settings), options=delta_options(settings)
    )


def stamp_of(place: Place) -> Stamp | None:
    """Changes with the file; None if there is none. Raises OSError."""
    if isinstance(place, ObjectPlace):
        return place.stamp()
    try:
        found = place.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def text_of(place: Place) -> str | None:
    """The text of a file; None if there is none. Raises OSError."""
    try:
        if isinstance(place, ObjectPlace):
            with place.opened() as file:
                return bytes(file.read()).decode()
        return place.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def options_of(place: Place) -> dict[str, str] | None:
    """The storage options of delta-rs; None on this machine."""
    return dict(place.options) if isinstance(place, ObjectPlace) else None


def s3_settings(env: Mapping[str, str]) -> dict[str, str]:
    """`endpoint` ("" for AWS) and `region` ("" if nothing names it), from AWS's variables. Pure."""
    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or ""
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or ""
    # A store that is not AWS has one region, whose name it rarely looks at.
    return {"endpoint": endpoint.rstrip("/"), "region": region or ("us-east-1" if endpoint else "")}


def delta_options(settings: Mapping[str, str]) -> dict[str, str]:
    """The storage options of delta-rs; keys come from AWS's usual chain. Pure."""
    endpoint = settings["endpoint"]
    given = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_REGION": settings["region"],
        "AWS_ALLOW_HTTP": "true" if endpoint.startswith("http://") else "",
    }
    return {
        **{name: value for name, value in given.items() if value},
        "connect_timeout": f"{CONNECT_S}s",
        "max_retries": str(ATTEMPTS_MAX - 1),
    }


def _system(settings: Mapping[str, str]) -> Any:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem

    scheme, _, host = settings["endpoint"].partition("://")
    given = {"endpoint_override": host, "scheme": scheme, "region": settings["region"]}
    return S3FileSystem(
        connect_timeout=CONNECT_S,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX),
        **{name: value for name, value in given.items() if value},
    )
