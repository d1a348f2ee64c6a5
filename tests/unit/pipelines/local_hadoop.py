"""Hadoop's file system for unit tests, over folders of this machine, as Py4J shows it: no JVM."""

from __future__ import annotations

import io
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class LocalHadoop:
    """A session with `_jvm` and `_jsc`, as far as files are concerned. `reads`: sizes that were
    asked for."""

    def __init__(self) -> None:
        self.reads: list[int | None] = []
        to_bytes = SimpleNamespace(toByteArray=self._rest)
        fs = SimpleNamespace(Path=self._path)
        apache = SimpleNamespace(
            hadoop=SimpleNamespace(fs=fs),
            commons=SimpleNamespace(io=SimpleNamespace(IOUtils=to_bytes)),
        )
        self._jvm = SimpleNamespace(org=SimpleNamespace(apache=apache))
        self._jsc = SimpleNamespace(hadoopConfiguration=lambda: None)

    def _path(self, text: str) -> Any:
        return SimpleNamespace(text=text, getFileSystem=lambda conf: _System(self))

    def _rest(self, stream: Any) -> bytes:
        self.reads.append(None)
        return bytes(stream.file.read())


class _System:
    def __init__(self, hadoop: LocalHadoop) -> None:
        self.hadoop = hadoop

    def exists(self, where: Any) -> bool:
        return os.path.exists(where.text)

    def open(self, where: Any) -> Any:
        return _Stream(self.hadoop, io.BytesIO(Path(where.text).read_bytes()))

    def create(self, where: Any, overwrite: bool) -> Any:
        assert overwrite
        return SimpleNamespace(write=Path(where.text).write_bytes, close=lambda: None)

    def listStatus(self, where: Any) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(getPath=lambda each=each: SimpleNamespace(getName=lambda: each.name))
            for each in Path(where.text).iterdir()
        ]

    def rename(self, old: Any, new: Any) -> bool:
        if os.path.exists(new.text) or not os.path.exists(old.text):
            return False
        os.rename(old.text, new.text)
        return True

    def delete(self, where: Any, recursive: bool) -> None:
        path = Path(where.text)
        if path.is_dir():
            shutil.rmtree(path) if recursive else path.rmdir()
        else:
            path.unlink(missing_ok=True)


class _Stream:
    def __init__(self, hadoop: LocalHadoop, file: Any) -> None:
        self.hadoop, self.file = hadoop, file

    def readNBytes(self, count: int) -> bytes:  # noqa: N802
        self.hadoop.reads.append(count)
        return bytes(self.file.read(count))

    def close(self) -> None:
        pass
