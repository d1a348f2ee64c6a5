"""Files in memory for the unit tests: what `HadoopFiles` does, on a dictionary."""

from __future__ import annotations

import json

from josefine_spark.base.topic_offsets import TopicOffsets, flat, nested


class MemoryFiles:
    """Path → text. Folders are the prefixes of the paths."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def read_text(self, path: str) -> str | None:
        return self.texts.get(path)

    def names(self, folder: str) -> list[str]:
        prefix = f"{folder}/"
        below = (p.removeprefix(prefix) for p in self.texts if p.startswith(prefix))
        return sorted({name.split("/")[0] for name in below})

    def write_text(self, path: str, text: str) -> None:
        self.texts[path] = text

    def rename(self, path: str, new_path: str) -> None:
        for old in [p for p in self.texts if p.startswith(f"{path}/")]:
            self.texts[new_path + old.removeprefix(path)] = self.texts.pop(old)

    def remove(self, path: str) -> None:
        for old in [p for p in self.texts if p == path or p.startswith(f"{path}/")]:
            del self.texts[old]


def offset_text(ends, first=None, ids=None) -> str:
    """An offset as the josefine source records it."""
    value = {"first": nested(first or {}), "offsets": nested(ends)}
    return json.dumps(value | {"topic_ids": ids or {}, "v": 1})


def parse_offset_text(text: str) -> TopicOffsets:
    value = json.loads(text)
    return TopicOffsets(
        ends=flat(value["offsets"]),
        first=flat(value["first"]),
        topic_ids=value["topic_ids"],
    )


def wal_text(offset: str) -> str:
    """A file of Spark's offset log: version, batch metadata, one line per source."""
    return f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{{}}}}\n{offset}'
