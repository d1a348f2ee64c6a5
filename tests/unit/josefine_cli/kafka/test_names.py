"""Unknown names: the nearest known one is offered, and what creates it."""

import pytest

from josefine_cli.kafka.names import unknown_group, unknown_topic

KNOWN = ("orders", "payments", "__consumer_offsets")


@pytest.mark.parametrize("topic", ["ordes", "order", "Orders"])
def test_a_mistyped_topic_is_answered_with_the_one_that_was_meant(topic: str) -> None:
    assert unknown_topic(topic, KNOWN) == (
        f"topic '{topic}' does not exist: did you mean 'orders'? "
        f"If not: josefine topics create {topic}"
    )


@pytest.mark.parametrize("topic", ["flights", "consumer_offsets", "o"])
def test_a_topic_like_no_other_is_answered_with_the_command_that_creates_it(topic: str) -> None:
    assert unknown_topic(topic, KNOWN) == (
        f"topic '{topic}' does not exist: josefine topics create {topic}"
    )


def test_a_mistyped_group_is_answered_with_the_one_that_was_meant() -> None:
    assert unknown_group("reader", ("readers",)) == (
        "group 'reader' does not exist: did you mean 'readers'?"
    )
    assert unknown_group("absent", ("readers",)) == "group 'absent' does not exist"
