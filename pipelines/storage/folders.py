"""The opener of a table's or checkpoint's folder without Spark, by its path or URI."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from josefine_broker.base.install_commands import not_installed
from pipelines.config.output_paths import local_folder, scheme_of
from pipelines.storage import azure, google, s3
from pipelines.storage.azure import AzureLocation, azure_location
from pipelines.storage.files import Files, FolderFiles, ObjectFiles
from pipelines.storage.google import GoogleLocation, google_location
from pipelines.storage.location import ATTEMPTS_MAX, Location, StorageError, why_failed
from pipelines.storage.s3 import S3Location, s3_location

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFolder:
    """A folder: `path` as `files` and delta-rs take it, `options` for delta-rs. `at`: its place in
    a store, None on this machine."""

    path: str
    files: Files
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    at: Location | None = None
    system: FileSystem | None = field(default=None, repr=False)

    def arrow(self) -> FileSystem:
        """Arrow's own file system below this folder: one of Python may abort the process at its
        end."""
        from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

        if self.at is None:
            return SubTreeFileSystem(self.path, LocalFileSystem())
        return SubTreeFileSystem(f"{self.at.bucket}/{self.at.key}", self.system)

    def next_to(self, suffix: str) -> TableFolder:
        """The folder whose path has a suffix more."""
        at = self.at and replace(self.at, uri=self.at.uri + suffix, key=self.at.key + suffix)
        return replace(self, path=self.path + suffix, at=at)


OpenFolder = Callable[[str], TableFolder | None]
"""Opens a path; None if only Spark reaches it. Raises StorageError."""


def open_local(path: str) -> TableFolder | None:
    """A folder of this machine; None for any other."""
    local = local_folder(path)
    return None if local is None else TableFolder(path=local, files=FolderFiles())


class Folders:
    """The folders of one pipeline file. Mutable: the file system of each bucket that was opened."""

    def __init__(self, conf: Mapping[str, str], env: Mapping[str, str]) -> None:
        """`conf`: the settings of `spark.conf`, with their secrets."""
        self._conf = conf
        self._env = env
        self._systems: dict[tuple[str, str, str], _System] = {}

    def open(self, path: str) -> TableFolder | None:
        """A folder of this machine or in a store; None if only Spark reaches it. Raises
        StorageError."""
        kind = _KINDS.get(scheme_of(path))
        if kind is None:
            return open_local(path)
        at = kind.locate(path, self._conf, self._env)
        if at is None:
            return None
        name = (at.where, at.bucket, scheme_of(path))
        if name not in self._systems:
            self._systems[name] = _opened(kind, at)
        system, options = self._systems[name]
        files = ObjectFiles(system, at)
        return TableFolder(path=at.uri, files=files, options=options, at=at, system=system)


def why_left(path: str) -> str:
    """The sentence for a path that `Folders.open` leaves to Spark: what is missing."""
    kind = _KINDS.get(scheme_of(path))
    missing = "it is neither on this machine nor in a store that is read without Spark"
    return f"{path}: {kind.no_user if kind else missing}"


_System = tuple["FileSystem", Mapping[str, str]]
"""pyarrow's file system of a bucket, and delta-rs' storage options."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of store. `locate`: None if only Spark can be the user of the settings; `no_user`:
    the reason."""

    locate: Callable[[str, Mapping[str, str], Mapping[str, str]], Location | None]
    open: Callable[[Any], _System]
    no_user: str


def _opened(kind: _Kind, at: Location) -> _System:
    if importlib.util.find_spec("pyarrow") is None:
        raise StorageError(f"{at.uri}: {not_installed('pyarrow')}")
    from pyarrow import ArrowException

    try:
        return kind.open(at)
    except (OSError, ArrowException) as error:
        raise StorageError(why_failed(at, str(error))) from error
    except ImportError as error:  # a pyarrow that was built without the store
        raise StorageError(f"{at.uri}: this pyarrow cannot open it ({error})") from error


def _open_s3(at: S3Location) -> _System:
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    # Only AWS has regions that differ by bucket, and the answer names the bucket's.
    at = replace(at, region=at.region or resolve_s3_region(at.bucket))
    retries = AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX)
    return S3FileSystem(retry_strategy=retries, **s3.arrow_arguments(at)), s3.delta_options(at)


def _open_azure(at: AzureLocation) -> _System:
    from pyarrow.fs import AzureFileSystem

    return AzureFileSystem(**azure.arrow_arguments(at)), azure.delta_options(at)


def _open_google(at: GoogleLocation) -> _System:
    from pyarrow.fs import GcsFileSystem

    return GcsFileSystem(**google.arrow_arguments(at)), google.delta_options(at)


_S3 = _Kind(s3_location, _open_s3, s3.NO_USER)
_AZURE = _Kind(azure_location, _open_azure, azure.NO_USER)
_KINDS: Mapping[str, _Kind] = {
    "s3": _S3,
    "s3a": _S3,
    "abfs": _AZURE,
    "abfss": _AZURE,
    "gs": _Kind(google_location, _open_google, google.NO_USER),
}
