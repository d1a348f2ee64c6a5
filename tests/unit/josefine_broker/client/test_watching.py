"""What an operation waits for, in words: what, the last error that may pass, whom it asks now."""

from __future__ import annotations

from random import Random

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.client.cluster import Address
from josefine_broker.client.session import Policy, Session
from josefine_broker.client.watching import ASKED_MS, Doing, wait_for
from josefine_broker.wire import apis


class Watched:
    """A client at work, as its shell tells."""

    def __init__(self) -> None:
        self.now_ms = 0
        self.session = Session((Address("boot", 1),), Policy(), Random(1))
        self.doing = Doing(self.session, lambda: self.now_ms)

    def said(self, later_ms: int = 0) -> str:
        self.now_ms += later_ms
        return self.doing.describe()


def test_only_a_late_answer_is_worth_a_word() -> None:
    client = Watched()
    client.session.start(0, 30_000, "produce")
    client.doing.begins("h:1 has not answered")

    assert client.said() == "produce"
    assert client.said(ASKED_MS) == "produce: h:1 has not answered"
    client.doing.begins("")
    assert client.said(ASKED_MS) == "produce"


def test_error_that_may_pass_goes_before_whom_it_asks_now() -> None:
    client = Watched()
    attempts = client.session.start(0, 30_000, "produce")
    attempts.after(KafkaError(ErrorCode.not_enough_replicas, "1 in sync, 2 needed"), 0)
    client.doing.begins("h:1 has not answered")

    assert client.said() == "produce: 1 in sync, 2 needed"
    assert client.said(ASKED_MS) == "produce: 1 in sync, 2 needed; now h:1 has not answered"


def test_next_operation_does_not_inherit_the_trouble_of_the_last() -> None:
    client = Watched()
    attempts = client.session.start(0, 30_000, "produce")
    attempts.after(KafkaError(ErrorCode.not_enough_replicas, "1 in sync, 2 needed"), 0)
    client.session.start(0, 30_000, "fetch")

    assert client.said() == "fetch"


def test_a_join_that_waits_for_members_is_not_called_a_silent_broker() -> None:
    assert "group.initial_rebalance_delay_ms" in wait_for(apis.JOIN_GROUP, "127.0.0.1:9092")
    assert wait_for(apis.METADATA, "127.0.0.1:9092") == "127.0.0.1:9092 has not answered"
