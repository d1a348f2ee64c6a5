"""Who runs what when several processes share the tests (pytest-xdist; `./build.sh test` does).

Rules: a file's tests run in one process, one after the other, so that its module's broker or
cluster is made once; the tests of a folder that share a Spark session run in one process (or two,
where there are many), for a session takes seconds to start and a gigabyte; tests that start drivers
of their own are units. Units of Spark come first, being the longest, and the last process begins at
the other end, with what mostly waits: so computing and waiting lie side by side from the first
minute on. A process that has nothing left to do takes the next unit; the order within a unit is
pytest-randomly's.
"""

from collections.abc import Iterable

SESSION_FOLDERS = ("tests/spark/connector", "tests/spark/pipelines")
HALVED = {"tests/spark/pipelines": "test_p"}
"""Folders that would keep one process busy when all others have nothing left: two units, the files
below that name and those from it on."""
OWN_DRIVERS = ("tests/spark/pipelines/test_kill.py",)

SPARK = (*OWN_DRIVERS, "tests/spark")
OTHERS = ("tests/integration/cluster", "tests/integration", "tests/compat", "tests/simulation")
"""Longest first: what begins last should be short, or one process works on alone at the end."""


def unit_of(nodeid: str) -> str:
    """The tests that must run together with this one, by a name."""
    file = nodeid.partition("::")[0]
    if file in OWN_DRIVERS:
        return nodeid
    folder, _, name = file.rpartition("/")
    if folder not in SESSION_FOLDERS:
        return file
    return f"{folder} {1 + (name >= HALVED[folder])}" if folder in HALVED else folder


def next_unit(waiting: Iterable[str], *, of_last_process: bool) -> str:
    """What a process takes up next. There must be something."""
    order = (*OTHERS, "tests/unit", *SPARK) if of_last_process else (*SPARK, *OTHERS)

    def place(unit: str) -> int:
        return next((n for n, each in enumerate(order) if unit.startswith(each)), len(order))

    return min(waiting, key=place)
