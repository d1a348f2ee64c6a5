"""File access through Hadoop's file systems: checkpoints and Delta logs may be in an object store.

A few calls per batch, each a round trip to the JVM of about a millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECE_BYTES = 6_000
"""Bytes of the first read. Py4J sends an answer of more than 8 KiB as text in two parts, and the
second part waits 40 ms for a delayed acknowledgement: a log entry takes 42 ms instead of 2."""
PIECES_MAX = 8
"""The rest of a larger file is read in one call."""


class HadoopFiles:
    """Reads, lists and renames by path or URI; a missing file is None or empty, not an error."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsc.hadoopConfiguration()

    def read_text(self, path: str) -> str | None:
        """The whole file as UTF-8 text; None when there is none."""
        where, system = self._at(path)
        if not system.exists(where):
            return None
        stream = system.open(where)
        data = bytearray()
        try:
            for _ in range(PIECES_MAX):
                piece = bytes(stream.readNBytes(PIECE_BYTES))
                data += piece
                if len(piece) < PIECE_BYTES:
                    break
            else:
                data += self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)
        finally:
            stream.close()
        return data.decode("utf-8")

    def exists(self, path: str) -> bool:
        where, system = self._at(path)
        return bool(system.exists(where))

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none when it does not exist."""
        where, system = self._at(folder)
        if not system.exists(where):
            return []
        return [status.getPath().getName() for status in system.listStatus(where)]

    def rename(self, path: str, new_path: str) -> None:
        where, system = self._at(path)
        if not system.rename(where, self._jvm.org.apache.hadoop.fs.Path(new_path)):
            raise OSError(f"{path} cannot be renamed to {new_path}")

    def remove(self, path: str) -> None:
        where, system = self._at(path)
        system.delete(where, False)

    def write_text(self, path: str, text: str) -> None:
        """Write or replace a file. Not atomic: for hints only."""
        where, system = self._at(path)
        stream = system.create(where, True)
        try:
            stream.write(bytearray(text.encode("utf-8")))
        finally:
            stream.close()

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where, where.getFileSystem(self._conf)
