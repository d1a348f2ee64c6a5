"""A query listener that publishes the lag of streams for Prometheus:

    spark.streams.addListener(LagListener("/var/lib/node_exporter/josefine.prom"))

The figures come with the progress of each query (lag.py). They are written to a file for the
textfile collector of Prometheus' node exporter; the file is replaced atomically after each batch.
A query that ends is removed from it. PySpark 4.2 only: a progress of 4.1 has no figures.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql.streaming.listener import (
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from josefine_spark.read.lag import read_lag

GAUGES = {
    "offsetsBehindLatest": ("josefine_source_offsets_behind", "offsets that were not read yet"),
    "maxOffsetsBehindLatest": (
        "josefine_source_offsets_behind_max",
        "those of the partition that has most of them",
    ),
    "bytesBehindLatest": ("josefine_source_bytes_behind", "their bytes as stored, estimated"),
    "secondsBehindLatest": ("josefine_source_seconds_behind", "age of the oldest batch of them"),
}
"""Figure of lag.py → name and meaning."""

Lags = Mapping[tuple[str, int], Mapping[str, float]]
"""By the query's name (its id if it has none) and the number of its source."""


class LagListener(StreamingQueryListener):
    """Writes one file. Raises FileNotFoundError if its folder does not exist."""

    def __init__(self, file: str | Path) -> None:
        self._file = Path(file)
        if not self._file.parent.is_dir():
            raise FileNotFoundError(f"{file}: there is no folder {self._file.parent}")
        self._names: dict[str, str] = {}
        self._lags: dict[tuple[str, int], Mapping[str, float]] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        self._names[str(event.id)] = event.name or str(event.id)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        progress = event.progress
        name = self._names.setdefault(str(progress.id), progress.name or str(progress.id))
        for number, source in enumerate(progress.sources):
            lag = read_lag(source.latestOffset)
            if lag is not None:
                self._lags[name, number] = lag
        self._write()

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        name = self._names.pop(str(event.id), str(event.id))
        self._lags = {key: lag for key, lag in self._lags.items() if key[0] != name}
        self._write()

    def _write(self) -> None:
        new = self._file.with_name(f".{self._file.name}.{os.getpid()}")
        new.write_text("".join(line + "\n" for line in exposition(self._lags)), encoding="utf-8")
        new.replace(self._file)


def exposition(lags: Lags) -> Iterable[str]:
    """The lines of Prometheus' text format."""
    for figure, (metric, meaning) in GAUGES.items():
        yield f"# HELP {metric} {meaning}"
        yield f"# TYPE {metric} gauge"
        for (name, number), lag in sorted(lags.items()):
            if figure in lag:
                yield f'{metric}{{query="{_escaped(name)}",source="{number}"}} {lag[figure]}'


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
