"""The files of one directory whose names are read once, while a log is opened.

Opening a log asks a dozen times which files its directory has, and for four files that most logs
lack. With 10,000 logs those system calls were a third of a broker's start. Rules: nothing but the
owner changes the directory until `forget_for_good`; each change through this object forgets the
names, so the next question reads them again; a name that is listed is still opened and may fail.
Everything else goes to the files below.
"""

import errno
import os

from josefine_broker.base.ports import File, Files


class ListedDirectory:
    """Implements `Files`. Used by one thread until `forget_for_good`."""

    __slots__ = ("_directory", "_files", "_is_kept", "_names")

    def __init__(self, files: Files, directory: str, names: list[str]) -> None:
        """`names` is what `files.list(directory)` has just returned."""
        self._files = files
        self._directory = directory
        self._names: list[str] | None = names
        self._is_kept = True

    def forget_for_good(self) -> None:
        """Other threads may change the directory from now on: pass every question on."""
        self._is_kept = False
        self._names = None

    def forget(self) -> None:
        """The directory changed, or is about to, by other means."""
        self._names = None

    def list(self, directory: str) -> list[str]:
        if directory != self._directory or not self._is_kept:
            return self._files.list(directory)
        if self._names is None:
            self._names = self._files.list(directory)
        return self._names.copy()

    def open(self, path: str, *, create: bool = False) -> File:
        if create:
            self._names = None
        elif self._lacks(path):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self._files.open(path, create=create)

    def make_directory(self, directory: str) -> None:
        if directory == self._directory and self._names:
            return  # it has files
        self._names = None
        self._files.make_directory(directory)

    def rename(self, old: str, new: str, *, durable: bool = True) -> None:
        self._names = None
        self._files.rename(old, new, durable=durable)

    def remove(self, path: str) -> None:
        if not self._lacks(path):
            self._names = None
            self._files.remove(path)

    def remove_tree(self, directory: str) -> None:
        self._names = None
        self._files.remove_tree(directory)

    def sync_directory(self, directory: str) -> None:
        self._files.sync_directory(directory)

    def _lacks(self, path: str) -> bool:
        """Whether the directory is known to have no such file."""
        names = self._names
        if names is None:
            return False
        directory, _, name = path.rpartition("/")
        return directory == self._directory and name not in names
