"""A folder in an object store, and the sentence for each way in which the store fails. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from josefine_broker.base.store_urls import malformed, without_password
from pipelines.base.errors import SetupError, first_line

CONNECT_TIMEOUT_S = 3
ATTEMPTS_MAX = 4
"""A person waits: a store drops connections and refuses for a moment (503 SlowDown), not longer."""

Causes = Sequence[tuple[str, str]]
"""A regular expression of an error's text, and the sentence for it: {where} and {bucket}."""
_QUERY = re.compile(r"\?[^\s?='\"]+=[^\s'\"]*")
"""The query of a URL, with which Azure's SDK signs it: some of its errors have it."""
NO_BUCKET = "there is no bucket `{bucket}` in {where}; create it or correct the path"


class StorageError(SetupError):
    """An object store cannot be reached or read; the message is one sentence with the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """`bucket`: a container of Azure's too. `key`: the path in it."""

    uri: str
    bucket: str
    key: str

    @property
    def where(self) -> str:
        """The store in messages."""
        raise NotImplementedError

    @property
    def lists_folders(self) -> bool:
        """Whether pyarrow lists the folders in a folder that no marker object names."""
        return True

    @property
    def causes(self) -> Causes:
        """The known errors of the store's libraries."""
        raise NotImplementedError


def why_failed(at: Location, error: str) -> str:
    """One sentence for an error of a file system: the path, the cause, the remedy."""
    for pattern, cause in at.causes:
        if re.search(pattern, error):
            return f"{at.uri}: {cause.format(where=at.where, bucket=at.bucket)}"
    found = _QUERY.sub("", error).strip() or "no reason given"
    return f"{at.uri}: {at.where} fails: {first_line(found)}"


def no_bucket(at: Location) -> str:
    """The sentence for a bucket that does not exist."""
    return f"{at.uri}: {NO_BUCKET.format(where=at.where, bucket=at.bucket)}"


def split_uri(path: str) -> tuple[str, str, str]:
    """(scheme, authority, key without double slashes) of a URI. Raises StorageError."""
    if wrong := malformed(path):
        raise StorageError(f"{without_password(path)} {wrong}")
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    return scheme, authority, re.sub("/+", "/", key).strip("/")
