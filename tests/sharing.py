"""Who runs what when several processes share the tests (pytest-xdist; `./build.sh test` does).

Rules: a file's tests run in one process, one after the other, so that its module's broker or
cluster is made once; the tests of a folder that share a Spark session run in one process (or a few,
where there are many), for a session takes seconds to start and a gigabyte; tests that start drivers
of their own are units. The longest units come first, so that the processes end together: those of
Spark, and for the last process the others, which mostly wait: so computing and waiting lie side by
side from the first minute on. A process that has nothing left to do takes the next unit; the order
within a unit is pytest-randomly's.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

SESSION_FOLDERS = (
    "tests/spark/connector",
    "tests/spark/pipelines",
    "tests/spark/pipelines/contracts",
)
PARTS = {"tests/spark/pipelines": ("test_fo", "test_k", "test_s", "test_table_s")}
"""Folders that would keep one process busy when all others have nothing left: several units, each
of the files from one of these names on."""
OWN_DRIVERS = ("tests/spark/pipelines/test_kill.py",)

SPARK = ("tests/spark",)


def unit_of(nodeid: str) -> str:
    """The tests that must run together with this one, by a name."""
    file = nodeid.partition("::")[0]
    if file in OWN_DRIVERS:
        return nodeid
    folder, _, name = file.rpartition("/")
    if folder not in SESSION_FOLDERS:
        return file
    if folder not in PARTS:
        return folder
    return f"{folder} {1 + sum(name >= first for first in PARTS[folder])}"


UNIT_SECONDS_FILE = Path(__file__).with_name("unit_seconds.json")
"""What units took when that was last written (`python -m tests.durations --write-units`); a unit
that is not named there is short."""


@cache
def unit_seconds() -> Mapping[str, float]:
    found: dict[str, float] = json.loads(UNIT_SECONDS_FILE.read_text())
    return found


def next_unit(
    waiting: Iterable[str],
    *,
    of_last_process: bool,
    seconds: Mapping[str, float] | None = None,
) -> str:
    """What a process takes up next: the longest of its kind. There must be something."""
    known = unit_seconds() if seconds is None else seconds

    def place(unit: str) -> tuple[bool, float]:
        return unit.startswith(SPARK) is of_last_process, -known.get(unit, 0.0)

    return min(waiting, key=place)
