"""A trouble that lasts is told when it begins, once a minute, and when it ends."""

from __future__ import annotations

from josefine_broker.base.lasting import Lasting


class Told(list[tuple[str, dict[str, object]]]):
    """What was told, in order."""

    def __call__(self, message: str, **fields: object) -> None:
        self.append((message, fields))

    @property
    def lines(self) -> list[tuple[str, object]]:
        return [(message, fields.get("lasted_s", 0)) for message, fields in self]


def test_trouble_is_told_once_a_minute_however_often_it_is_seen() -> None:
    told = Told()
    trouble = Lasting(told, "lost", leader=3)

    for now_ms in range(5_000, 155_000, 500):
        trouble.goes_on(now_ms, f"reason at {now_ms}")
    trouble.end(160_000, "found")
    trouble.end(161_000, "found")

    assert told.lines == [("lost", 0), ("lost", 60), ("lost", 120), ("found", 155)]
    assert {fields["leader"] for _, fields in told} == {3}
    assert told[1][1]["reason"] == "reason at 65000"


def test_trouble_that_comes_back_is_told_again() -> None:
    told = Told()
    trouble = Lasting(told, "lost")

    trouble.end(0, "found")
    trouble.goes_on(1_000, "r")
    trouble.end(2_000, "found")
    trouble.goes_on(3_000, "r")

    assert told.lines == [("lost", 0), ("found", 1), ("lost", 0)]
