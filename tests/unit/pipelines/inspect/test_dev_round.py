"""The records of previews, which a round of `josefine pipeline dev` starts from."""

from __future__ import annotations

from datetime import UTC, datetime

from pipelines.base.errors import SetupError
from pipelines.config.loader import load
from pipelines.config.validate import validate
from pipelines.inspect.dev_round import Rounds
from pipelines.model.pipeline import Source
from pipelines.sources.local_records import Row
from tests.unit.pipelines.config.test_validate import GOOD

TESTS = """\
tests:
  - { name: none given, given: {}, expect: { clean: { count: 0 } } }
  - { name: one, given: { raw: [{ value: { id: 1 } }] }, expect: { clean: { count: 1 } } }
"""
ROW: Row = (None, b"x", "orders", 0, 5, datetime(2026, 1, 1, tzinfo=UTC), 0)


class Topic:
    """The newest records of a source, and how often they were read."""

    def __init__(self, rows: list[Row] | SetupError) -> None:
        self.rows, self.reads = rows, 0

    def __call__(self, source: Source) -> list[Row]:
        self.reads += 1
        if isinstance(self.rows, SetupError):
            raise self.rows
        return self.rows


def test_the_newest_records_are_read_once_so_that_two_rounds_show_the_same() -> None:
    topic = Topic([ROW])
    rounds = Rounds(topic)
    for text in (GOOD + TESTS, GOOD + TESTS.replace("id: 1", "id: 2")):
        pipeline = validate(load(text, "f.yaml", {}))
        given = rounds.given(pipeline.sources["raw"], pipeline)

        assert (given.rows, given.origin, given.is_offline) == (
            (ROW,),
            "newest records of orders",
            False,
        )
    assert topic.reads == 1


def test_without_brokers_or_records_those_of_the_first_test_that_has_some_are_taken() -> None:
    pipeline = validate(load(GOOD + TESTS, "f.yaml", {}))
    for rows in (SetupError("no broker"), []):
        given = Rounds(Topic(rows)).given(pipeline.sources["raw"], pipeline)

        assert [row[1] for row in given.rows] == [b'{"id": 1}']
        assert given.origin == "test 'one'"
        assert given.is_offline


def test_without_a_test_the_reason_is_in_place_of_the_records() -> None:
    pipeline = validate(load(GOOD, "f.yaml", {}))

    given = Rounds(Topic(SetupError("no broker"))).given(pipeline.sources["raw"], pipeline)

    assert (given.rows, given.origin) == ((), "no broker")
