"""Tables of a family are opened without Spark, by Spark where that cannot be, and once a run."""

from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.sinks.direct_table import CameBetweenError, NotDirectError
from pipelines.sinks.family import tables
from pipelines.sinks.family.tables import LOOKS_MAX, FamilyTable, FamilyTables

BY_SPARK = FamilyTable(chain=SimpleNamespace(name="by Spark"))  # type: ignore[arg-type]
DIRECT = FamilyTable(chain=SimpleNamespace(name="direct"))  # type: ignore[arg-type]
EMPTY: Any = SimpleNamespace(schema=SimpleNamespace(jsonValue=lambda: {"fields": []}))


class Looks:
    """What each look at a table finds, in turn; the last one again and again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: Exception | FamilyTable) -> None:
        self.found = list(found)
        self.direct = self.by_spark = 0
        monkeypatch.setattr(tables.FamilyTables, "_directly", self.look)
        monkeypatch.setattr(tables.FamilyTables, "_by_spark", self.open_by_spark)

    def look(self, *_: object) -> FamilyTable:
        self.direct += 1
        each = self.found.pop(0) if len(self.found) > 1 else self.found[0]
        if isinstance(each, Exception):
            raise each
        return each

    def open_by_spark(self, *_: object) -> FamilyTable:
        self.by_spark += 1
        return BY_SPARK


def family_tables(*, is_direct: bool = True) -> FamilyTables:
    nothing: Any = SimpleNamespace()
    return FamilyTables(nothing, nothing, nothing, nothing, EMPTY, is_direct=is_direct)


@pytest.mark.parametrize(
    ("found", "looks", "opened"),
    [
        ([DIRECT], 1, DIRECT),
        ([CameBetweenError(""), DIRECT], 2, DIRECT),
        ([NotDirectError("")], 1, BY_SPARK),
        ([CameBetweenError("")], LOOKS_MAX, BY_SPARK),
    ],
)
def test_table_that_others_write_is_looked_at_again_and_then_left_to_spark(
    monkeypatch: pytest.MonkeyPatch,
    found: list[Exception | FamilyTable],
    looks: int,
    opened: FamilyTable,
) -> None:
    seen = Looks(monkeypatch, *found)
    opens = family_tables()

    assert opens.open("a", {}) is opened
    assert opens.open("a", {}) is opened
    assert (seen.direct, seen.by_spark) == (looks, opened is BY_SPARK)


def test_a_sink_that_spark_writes_opens_no_table_without_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Looks(monkeypatch, DIRECT)

    assert family_tables(is_direct=False).open("a", {}) is BY_SPARK
    assert seen.direct == 0


def test_table_whose_log_came_to_ask_for_more_stays_with_spark(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = Looks(monkeypatch, DIRECT)
    opens = family_tables()
    opens.open("a", {})

    assert opens.open_by_spark("a", {}) is BY_SPARK
    assert opens.open("a", {}) is BY_SPARK
    assert seen.direct == 1
