"""How long the next proof of an address waits for its wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from josefine_broker.engine.limits.login_backoff import (
    ADDRESSES_MAX,
    EVERY_MS,
    FREE,
    WAIT_MS_MAX,
    Guesses,
    Slot,
    house_of,
)

GUESSER, GOOD = "10.0.0.1", "10.0.0.2"


def wrong_ones(count: int, now_ms: int = 0) -> Guesses:
    guesses = Guesses()
    for _ in range(count):
        assert guesses.ask(GUESSER, now_ms) == (Slot.FREE, 0)
        guesses.wrong(GUESSER, now_ms)
    return guesses


def test_slips_cost_nothing_and_then_there_is_one_a_second_for_its_address_alone() -> None:
    guesses = wrong_ones(FREE)

    assert guesses.ask(GUESSER, 0) == (Slot.TAKEN, EVERY_MS)
    assert guesses.ask(GUESSER, 0) == (Slot.TAKEN, 2 * EVERY_MS)
    assert guesses.ask(GOOD, 0) == (Slot.FREE, 0)


def test_who_would_wait_too_long_is_not_looked_at_and_takes_no_place() -> None:
    guesses = wrong_ones(FREE)
    asked = [guesses.ask(GUESSER, 0) for _ in range(100)]

    assert asked[WAIT_MS_MAX // EVERY_MS :] == [(Slot.NONE, 0)] * (100 - WAIT_MS_MAX // EVERY_MS)
    assert guesses.ask(GUESSER, EVERY_MS) == (Slot.TAKEN, WAIT_MS_MAX)


def test_a_right_one_gives_its_slot_back_and_forgives_nothing() -> None:
    guesses = wrong_ones(FREE)
    assert guesses.ask(GUESSER, 0) == (Slot.TAKEN, EVERY_MS)
    guesses.give_back(GUESSER)

    assert guesses.ask(GUESSER, 0) == (Slot.TAKEN, EVERY_MS)


def test_it_is_forgotten_with_time() -> None:
    guesses = wrong_ones(FREE)

    assert guesses.ask(GUESSER, FREE * EVERY_MS)[0] is Slot.FREE
    for _ in range(FREE):
        assert guesses.ask(GUESSER, FREE * EVERY_MS) == (Slot.FREE, 0)
        guesses.wrong(GUESSER, FREE * EVERY_MS)
    assert guesses.ask(GUESSER, FREE * EVERY_MS)[0] is Slot.TAKEN


@given(st.lists(st.integers(0, 3_000), max_size=60))
def test_however_it_is_asked_it_looks_at_one_a_second_beyond_the_slips(pauses: list[int]) -> None:
    guesses, now_ms, looked = Guesses(), 0, []
    for pause_ms in pauses:
        now_ms += pause_ms
        slot, wait_ms = guesses.ask(GUESSER, now_ms)
        if slot is Slot.FREE:
            guesses.wrong(GUESSER, now_ms)
        if slot is not Slot.NONE:
            looked.append(now_ms + wait_ms)

    looked.sort()
    for number, at_ms in enumerate(looked):
        assert sum(at_ms <= each < at_ms + EVERY_MS for each in looked[number:]) <= FREE + 1
    if looked:
        assert len(looked) <= FREE + (looked[-1] - looked[0]) // EVERY_MS + 1


def test_memory_is_bounded_by_addresses() -> None:
    guesses = Guesses()
    for number in range(ADDRESSES_MAX + 10):
        guesses.wrong(f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}", 0)

    assert guesses.houses == ADDRESSES_MAX


@pytest.mark.parametrize(
    ("address", "house"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("[2001:db8:1:2:3::4]", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_a_network_of_the_newer_kind_is_one_house(address: str, house: str) -> None:
    assert house_of(address) == house
