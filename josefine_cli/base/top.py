"""Readers by their lag, looked at again and again: how fast each reads, and when it is done.

On a terminal the table stays in its place; else each look is printed after the one before.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

COLUMNS = ("name", "state", "read", "lag", "per second", "left")
EVERY_S = 2.0

Every = Annotated[
    float, typer.Option(min=0.1, max=3_600, help="Seconds between two looks.", metavar="SECONDS")
]
Looks = Annotated[
    int | None, typer.Option(min=1, help="End after so many looks, not with Ctrl-C.", metavar="N")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A reader at one moment. `read`: the sum of its offsets; `lag`: None if unknown; `lag_s`: the
    age of its oldest unread record, None if unknown."""

    state: str
    read: int
    lag: int | None
    lag_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """A reader between two moments. `per_second`: None after the first look; `left_s`: None where
    it does not come nearer to the end."""

    name: str
    state: str
    read: int
    lag: int | None
    per_second: float | None
    left_s: float | None
    lag_s: float | None = None

    def to_json(self) -> dict[str, Any]:
        rate = None if self.per_second is None else round(self.per_second, 1)
        left = None if self.left_s is None else round(self.left_s, 1)
        age = None if self.lag_s is None else round(self.lag_s, 1)
        said = {"name": self.name, "state": self.state, "read": self.read, "lag": self.lag}
        return {**said, "lag_s": age, "per_second": rate, "left_s": left}

    def cells(self, *, with_age: bool) -> tuple[str, ...]:
        rate = "-" if self.per_second is None else f"{self.per_second:,.1f}"
        left = "-" if self.left_s is None else f"{self.left_s:,.0f} s"
        lag = "-" if self.lag is None else f"{self.lag:,}"
        age = "-" if self.lag_s is None else f"{self.lag_s:,.1f} s"
        ages = (age,) if with_age else ()
        return self.name, self.state, f"{self.read:,}", lag, *ages, rate, left


def table_rows(found: Sequence[Speed]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """(the columns, the rows): with the age of the lag where a reader has one."""
    with_age = any(each.lag_s is not None for each in found)
    columns = (*COLUMNS[:4], *(("oldest unread",) if with_age else ()), *COLUMNS[4:])
    return columns, [each.cells(with_age=with_age) for each in found]


def speeds(
    before: Mapping[str, Reading], now: Mapping[str, Reading], seconds: float
) -> list[Speed]:
    """The readers, the greatest lag first. `seconds`: between the two looks."""
    found = []
    for name, reading in now.items():
        earlier = before.get(name)
        rate = None
        if earlier is not None and seconds > 0:
            # Offsets that were reset go back: that is no reading.
            rate = max(0, reading.read - earlier.read) / seconds
        left = _left(earlier, reading, rate, seconds)
        found.append(
            Speed(
                name=name,
                state=reading.state,
                read=reading.read,
                lag=reading.lag,
                per_second=rate,
                left_s=left,
                lag_s=reading.lag_s,
            )
        )
    return sorted(found, key=lambda each: (-(each.lag or 0), each.name))


def _left(
    earlier: Reading | None, now: Reading, rate: float | None, seconds: float
) -> float | None:
    """Until the lag is 0, as it shrank between the two looks: writers write meanwhile."""
    if now.lag == 0:
        return 0.0
    if rate is None or earlier is None or earlier.lag is None or now.lag is None:
        return None
    shrinks = (earlier.lag - now.lag) / seconds
    return now.lag / shrinks if shrinks > 0 else None


def watch_readers(
    look: Callable[[], Mapping[str, Reading]], every_s: float, looks: int | None, *, as_json: bool
) -> None:
    """Look until Ctrl-C or `looks` times; `look` raises what ends it."""
    # Here, because verbs of files share this module and load no client of the brokers.
    from josefine_cli.base.output import is_terminal, print_json, print_table

    try:
        if is_terminal(sys.stdout) and not as_json:
            _in_place(look, every_s, looks)
            return
        for found in _looks(look, every_s, looks):
            if as_json:
                print_json([each.to_json() for each in found])
            else:
                print_table(*table_rows(found))
            sys.stdout.flush()
    except KeyboardInterrupt:
        return


def _looks(
    look: Callable[[], Mapping[str, Reading]], every_s: float, looks: int | None
) -> Iterator[list[Speed]]:
    before: Mapping[str, Reading] = {}
    last_s, number = time.monotonic(), 0
    while True:
        now, now_s = look(), time.monotonic()
        yield speeds(before, now, now_s - last_s)
        before, last_s, number = now, now_s, number + 1
        if number == looks:
            return
        time.sleep(every_s)


def _in_place(look: Callable[[], Mapping[str, Reading]], every_s: float, looks: int | None) -> None:
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(highlight=False), auto_refresh=False) as live:
        for found in _looks(look, every_s, looks):
            live.update(_table(found), refresh=True)


def _table(found: Sequence[Speed]) -> Any:
    from josefine_cli.base.output import table_of

    return table_of(*table_rows(found))
