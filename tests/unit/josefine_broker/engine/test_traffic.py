"""What topics carried, summed so that no counter ever falls."""

from __future__ import annotations

from uuid import uuid4

from josefine_broker.engine.traffic import Traffic, TrafficTable


def test_bytes_of_an_answer_are_its_topics_by_name_and_by_id() -> None:
    table, topic_id = TrafficTable(), uuid4()
    traffic = table.of("orders", topic_id)

    table.sent("orders", None, 5)
    table.sent(None, topic_id, 7)
    table.sent("unknown", None, 9)
    table.sent(None, uuid4(), 9)

    assert traffic.bytes_out == 12
    assert table.of("orders", topic_id) is traffic


def test_deleted_topic_stays_in_the_sum_and_a_new_one_of_its_name_begins_anew() -> None:
    table, first, second = TrafficTable(), uuid4(), uuid4()
    table.of("orders", first).records_in = 3
    table.forget("orders", first)
    table.of("orders", second).records_in = 1
    table.sent(None, first, 9)

    assert table.topics() == [("orders", Traffic(records_in=1))]
    assert table.total() == Traffic(records_in=4)
