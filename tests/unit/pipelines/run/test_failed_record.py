"""The message about a failing record is searched for only where a value is the cause."""

from pipelines.run.failed_record import failed_record
from tests.unit.pipelines.dead_letters.test_sink_steps import steps_of


def test_another_error_is_not_searched_for() -> None:
    class Untouched(dict[str, object]):
        """Good rows that no job may read."""

        def items(self) -> None:
            raise AssertionError("searched")

    assert failed_record(steps_of("out"), Untouched(), RuntimeError("lost")) is None
