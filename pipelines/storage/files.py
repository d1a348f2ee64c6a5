"""The few file operations on logs and checkpoints: on this machine, and in stores through pyarrow.

Both satisfy `delta_log.Files` and `checkpoint.Files`. `ObjectFiles` raises StorageError where
pyarrow would report a missing bucket as an empty folder.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from pipelines.storage.location import Location, StorageError, no_bucket, split_uri, why_failed

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem


class Files(Protocol):
    """Reads, lists, renames and writes by path or URI; a missing file is None or empty."""

    def read_text(self, path: str) -> str | None: ...

    def names(self, folder: str) -> list[str]: ...

    def rename(self, path: str, new_path: str) -> None: ...

    def remove(self, path: str) -> None: ...

    def write_text(self, path: str, text: str) -> None: ...


class FolderFiles:
    """Files on a folder of this machine."""

    def read_text(self, path: str) -> str | None:
        """The text; None if there is no such file. Raises StorageError if a folder of the path is
        a file."""
        try:
            return Path(path).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            _refuse_file(Path(path).parent)
            raise

    def names(self, folder: str) -> list[str]:
        """The names, sorted; [] if there is no such folder. Raises StorageError for a file."""
        if not Path(folder).is_dir():
            _refuse_file(Path(folder))
            return []
        return sorted(each.name for each in Path(folder).iterdir())

    def rename(self, path: str, new_path: str) -> None:
        Path(path).rename(new_path)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def write_text(self, path: str, text: str) -> None:
        Path(path).write_text(text, encoding="utf-8")


def forget_checksum(path: Path) -> None:
    """Remove the checksum that Hadoop has written next to a file which gets other bytes: Hadoop
    would refuse them."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def forget_last_checkpoint(table: str) -> None:
    """The same for the `_last_checkpoint` of a local table, before a commit by delta-rs, which may
    replace it. Delta for Spark tries for three seconds to read one that is refused, whenever it
    opens the table."""
    forget_checksum(Path(table, "_delta_log", "_last_checkpoint"))


class ObjectFiles:
    """Files of one bucket, by URI. Mutable: whether the bucket was seen."""

    def __init__(self, system: FileSystem, at: Location) -> None:
        self._system = system
        self._at = at
        self._seen = False

    def read_text(self, path: str) -> str | None:
        """The text; None if there is no such file."""
        with self._in_one_sentence():
            try:
                with self._system.open_input_stream(_key(path)) as stream:
                    return bytes(stream.read()).decode("utf-8")
            except FileNotFoundError:
                return None

    def names(self, folder: str) -> list[str]:
        """The names, sorted; [] if there is no such folder. Raises StorageError also if there is
        no such bucket."""
        from pyarrow.fs import FileSelector

        with self._in_one_sentence():
            key = _key(folder)
            deep = not self._at.lists_folders
            selector = FileSelector(key, allow_not_found=True, recursive=deep)
            found = self._system.get_file_info(selector)
            if not found:
                self._refuse_file(folder)
            if not found and not self._seen:
                self._refuse_no_bucket()
            self._seen = True
        return sorted({each.path.removeprefix(f"{key}/").partition("/")[0] for each in found})

    def rename(self, path: str, new_path: str) -> None:
        """Rename a folder: a copy of each object, then their deletion. A crash between leaves both,
        or an old one whose commits have lost their offsets, which a run reports as damaged."""
        from pyarrow.fs import FileSelector, FileType

        old, new = _key(path), _key(new_path)
        with self._in_one_sentence():
            found = self._system.get_file_info(FileSelector(old, recursive=True))
            keys = [each.path for each in found if each.type == FileType.File]
            for key in keys:
                self._system.copy_file(key, new + key.removeprefix(old))
            for key in sorted(key for key in keys if "/offsets/" in key):
                self._system.delete_file(key)
            # With the markers of empty folders that pyarrow makes; in Google's store it misses one.
            with suppress(FileNotFoundError):
                self._system.delete_dir(old)

    def remove(self, path: str) -> None:
        with self._in_one_sentence():
            self._system.delete_file(_key(path))

    def write_text(self, path: str, text: str) -> None:
        with (
            self._in_one_sentence(),
            self._system.open_output_stream(_key(path)) as stream,
        ):
            stream.write(text.encode("utf-8"))

    def _refuse_file(self, folder: str) -> None:
        """An object where a folder is to be: Spark would refuse to write below it."""
        from pyarrow.fs import FileType

        key = _key(folder)
        parents = key.rpartition("/")[0], folder.rpartition("/")[0]
        for each, uri in ((key, folder), parents):
            is_below_bucket = "/" in each
            if is_below_bucket and self._system.get_file_info(each).type == FileType.File:
                raise StorageError(_not_a_folder(uri))

    def _refuse_no_bucket(self) -> None:
        from pyarrow.fs import FileType

        if self._system.get_file_info(self._at.bucket).type == FileType.NotFound:
            raise StorageError(no_bucket(self._at))

    @contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        from pyarrow import ArrowException

        try:
            yield
        except (OSError, ArrowException) as error:
            raise StorageError(why_failed(self._at, str(error))) from error


def _refuse_file(folder: Path) -> None:
    for each in (folder, *folder.parents):
        if each.is_file():
            raise StorageError(_not_a_folder(str(each)))


def _not_a_folder(path: str) -> str:
    return f"{path} is a file, not a folder; remove it or correct the path"


def _key(uri: str) -> str:
    """`bucket/key`, as pyarrow takes it. Azure's authority is `container@host`."""
    _, authority, key = split_uri(uri)
    return f"{authority.partition('@')[0]}/{key}".rstrip("/")
