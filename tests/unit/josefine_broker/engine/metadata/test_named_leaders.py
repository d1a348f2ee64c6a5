"""Which clients are given the same leaders again."""

from __future__ import annotations

from josefine_broker.engine.metadata.named_leaders import CLIENTS_MAX, SETTLED_MS, NamedLeaders

LEADERS = (("orders", 0, 1, 5),)
NEXT = (("orders", 0, 2, 6),)


def test_same_leaders_count_as_repeated_once_they_were_named_long_before() -> None:
    named = NamedLeaders()

    assert not named.is_repeated("a", LEADERS, 0)
    assert not named.is_repeated("a", LEADERS, SETTLED_MS - 1)
    assert named.is_repeated("a", LEADERS, SETTLED_MS)
    assert named.is_repeated("a", LEADERS, SETTLED_MS + 1)


def test_other_leaders_and_other_clients_are_not_repeated() -> None:
    named = NamedLeaders()
    named.is_repeated("a", LEADERS, 0)

    assert not named.is_repeated("b", LEADERS, SETTLED_MS)
    assert not named.is_repeated("a", NEXT, SETTLED_MS)
    assert not named.is_repeated("a", LEADERS, 2 * SETTLED_MS)


def test_number_of_remembered_clients_is_bounded() -> None:
    named = NamedLeaders()
    for number in range(CLIENTS_MAX + 1):
        named.is_repeated(str(number), LEADERS, 0)

    assert not named.is_repeated("0", LEADERS, SETTLED_MS)
    assert named.is_repeated(str(CLIENTS_MAX), LEADERS, SETTLED_MS)
