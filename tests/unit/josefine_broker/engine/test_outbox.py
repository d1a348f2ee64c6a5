"""The outgoing work of a broker is taken once, in the order in which it was added."""

from __future__ import annotations

from josefine_broker.engine import events as e
from josefine_broker.engine.outbox import Outbox


def test_work_is_taken_once_in_its_order() -> None:
    outbox = Outbox()
    outbox.tell("first", broker=1)
    outbox.tell("second", is_warning=True)

    taken = outbox.take()

    assert taken.notices == [
        e.Notice("first", {"broker": 1}, False), e.Notice("second", {}, True),
    ]  # fmt: skip
    assert outbox.take().notices == []


def test_a_question_that_is_not_needed_is_not_asked() -> None:
    outbox = Outbox()

    outbox.ask(None)

    assert outbox.take().asks == []
