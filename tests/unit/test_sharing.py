"""Which tests stay together, and who takes what first, when processes share them."""

from pathlib import Path

from tests.sharing import (
    OWN_DRIVERS,
    PARTS,
    SESSION_FOLDERS,
    SPARK,
    next_unit,
    unit_of,
    unit_seconds,
)

ROOT = Path(__file__).resolve().parents[2]


def test_a_file_is_a_unit_and_so_are_a_session_and_a_driver() -> None:
    kill = OWN_DRIVERS[0]

    assert unit_of("tests/unit/log/test_log.py::test_a[x::y]") == "tests/unit/log/test_log.py"
    assert unit_of("tests/spark/connector/test_sink.py::test_a") == "tests/spark/connector"
    assert unit_of("tests/spark/pipelines/test_joins.py::test_a") == "tests/spark/pipelines 2"
    assert unit_of("tests/spark/pipelines/test_plan.py::test_a") == "tests/spark/pipelines 3"
    assert unit_of("tests/spark/pipelines/test_windows.py::test_a") == "tests/spark/pipelines 5"
    assert unit_of(f"{kill}::test_a[1]") == f"{kill}::test_a[1]"


def test_longest_comes_first_of_spark_and_for_the_last_process_of_the_others() -> None:
    seconds = {"tests/spark/deploy/a.py": 9.0, "tests/compat/b.py": 5.0, "tests/spark/c.py": 20.0}
    units = ["tests/unit/d.py", *seconds]

    def order(of_last_process: bool) -> list[str]:
        waiting, taken = list(units), []
        while waiting:
            taken.append(next_unit(waiting, of_last_process=of_last_process, seconds=seconds))
            waiting.remove(taken[-1])
        return taken

    assert order(False) == [units[3], units[1], units[2], units[0]]
    assert order(True) == [units[2], units[0], units[3], units[1]]


def test_what_is_named_is_there() -> None:
    units = (name.partition("::")[0].partition(" ")[0] for name in unit_seconds())
    named = (*SESSION_FOLDERS, *PARTS, *OWN_DRIVERS, *SPARK, *units)

    assert [name for name in named if not (ROOT / name).exists()] == []
