"""The opener of a table's or checkpoint's folder without Spark, by its path or URI."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from josefine_broker.base.install_commands import not_installed
from pipelines.config.output_paths import in_s3, local_folder
from pipelines.storage.files import Files, FolderFiles, ObjectFiles
from pipelines.storage.s3 import (
    ATTEMPTS_MAX,
    S3Location,
    StorageError,
    arrow_arguments,
    delta_options,
    s3_location,
    why_failed,
)

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem, S3FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFolder:
    """A folder: `path` as `files` and delta-rs take it, `options` for delta-rs. `at`: its place in
    S3, None on this machine."""

    path: str
    files: Files
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    at: S3Location | None = None
    system: S3FileSystem | None = field(default=None, repr=False)

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
        self._systems: dict[str, tuple[S3FileSystem, str]] = {}

    def open(self, path: str) -> TableFolder | None:
        """A folder of this machine or in S3; None if only Spark reaches it. Raises StorageError."""
        if not in_s3(path):
            return open_local(path)
        at = s3_location(path, self._conf, self._env)
        if at is None:
            return None
        if at.bucket not in self._systems:
            self._systems[at.bucket] = _system(at)
        system, region = self._systems[at.bucket]
        at = replace(at, region=region)
        return TableFolder(
            path=at.uri,
            files=ObjectFiles(system, at),
            options=delta_options(at),
            at=at,
            system=system,
        )


def _system(at: S3Location) -> tuple[S3FileSystem, str]:
    """(the file system of a bucket, its region)."""
    if importlib.util.find_spec("pyarrow") is None:
        raise StorageError(f"{at.uri}: {not_installed('pyarrow')}")
    from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem, resolve_s3_region

    try:
        # Only AWS has regions that differ by bucket, and the answer names the bucket's.
        region = at.region or resolve_s3_region(at.bucket)
        retries = AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS_MAX)
        arguments = arrow_arguments(replace(at, region=region))
        return S3FileSystem(retry_strategy=retries, **arguments), region
    except OSError as error:
        raise StorageError(why_failed(at, str(error))) from error
