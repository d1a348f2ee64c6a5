"""The sides of a sink, from files of this machine and what the brokers report."""

from __future__ import annotations

import pytest

from pipelines.base.errors import SetupError
from pipelines.config.validate import read_pipeline
from pipelines.exactly_once.offset_chain import Tip, Verdict
from pipelines.inspect.sink_status import all_sides
from tests.unit.pipelines.inspect.test_status import TOPICS, A, Lake


@pytest.fixture
def lake(tmp_path):
    return Lake(tmp_path)


def sides(lake, look=lambda source: TOPICS, text=lambda text: text):
    lake.file.write_text(text(lake.file.read_text()))
    return all_sides(read_pipeline(lake.file, {}), look)


def test_each_sink_has_the_end_of_its_own_commits(lake):
    lake.commit(12)
    more = "  more: { type: delta, inputs: [raw], path: /none, mode: append }\ntrigger:"

    one, other = sides(lake, text=lambda text: text.replace("trigger:", more))

    assert (one.sink.name, other.sink.name) == ("lake", "more")
    assert isinstance(one.tip, Tip)
    assert dict(one.tip.reached.ends) == {A: 12}
    assert (other.tip, other.stop, other.unknown) == (None, None, "")


def test_a_table_on_another_machine_is_left_to_spark(lake):
    lake.commit(12)

    there = "path: 'abfss://b@a/l'"

    (found,) = sides(lake, text=lambda t: t.replace(f"path: {lake.folder}/lake", there))

    assert found.tip is None
    assert found.unknown.startswith("only Spark finds it")


def test_without_brokers_the_files_are_reported_and_what_is_unknown(lake):
    lake.commit(12)
    lake.checkpoint(12)

    def no_broker(source):
        raise SetupError("no broker there")

    (found,) = sides(lake, no_broker)

    assert isinstance(found.tip, Tip)
    assert found.checkpoint is not None
    assert (found.topics, found.unknown) == (None, "no broker there")


def test_a_table_that_was_set_back_does_not_fit_its_checkpoint(lake):
    lake.commit(8)
    lake.checkpoint(12)

    (found,) = sides(lake)

    assert found.stop is not None
    assert found.stop.verdict is Verdict.TABLE_BEHIND


def test_dead_letters_that_are_gone_stop_a_sink_that_has_written_some(lake):
    dead = lake.folder / "dead"
    lake.commit(12, letters={"orders": {"0": 12}}, dead_letters=str(dead))
    lake.checkpoint(12)

    def with_dead_letters(text):
        return text.replace("on_error: fail", "on_error: dead_letter") + (
            f"dead_letter: {{ type: delta, path: {dead} }}\n"
        )

    (found,) = sides(lake, text=with_dead_letters)

    assert found.stop is not None
    assert found.stop.verdict is Verdict.DEAD_LETTERS_GONE
