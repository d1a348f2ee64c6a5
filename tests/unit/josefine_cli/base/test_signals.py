"""A stop is something to look at, once; then everything is as if nobody had listened."""

from __future__ import annotations

import select
import signal
import threading
from collections.abc import Iterator

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_cli.base.signals import STOP_SIGNALS, StopSignals


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Those of a program of its own, whoever runs the tests; put back at the end."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def is_readable(stop: StopSignals) -> bool:
    return bool(select.select([stop.descriptor], [], [], 0)[0])


@pytest.mark.parametrize("number", STOP_SIGNALS)
def test_the_first_signal_raises_nothing_and_is_remembered(number: signal.Signals) -> None:
    with StopSignals() as stop:
        assert (stop.number, is_readable(stop)) == (None, False)

        signal.raise_signal(number)

        assert (stop.number, is_readable(stop)) == (number, True)


def test_an_event_is_set_by_a_signal_or_by_what_is_looked_at() -> None:
    with StopSignals() as stop:
        ended = stop.event()
        assert not ended.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert ended.wait(30)
    with StopSignals() as stop:
        assert stop.event(lambda: True).wait(30)


def test_nothing_waits_for_a_signal_after_the_block() -> None:
    with StopSignals() as stop:
        ended = stop.event()
        waiter = stop._waiter
    assert waiter is not None
    assert not waiter.is_alive()
    assert ended.is_set()


def test_a_wait_is_ended_by_a_signal_before_or_during_it_and_by_none_after_it() -> None:
    with StopSignals() as stop:
        during, before, after = threading.Event(), threading.Event(), threading.Event()
        with stop.ending(after.set):
            pass
        with stop.ending(during.set):
            signal.raise_signal(signal.SIGTERM)
            assert during.wait(30)
        with stop.ending(before.set):
            assert before.wait(30)

    assert not after.is_set()


def test_a_wait_that_fails_leaves_no_watcher() -> None:
    with StopSignals() as stop:
        running = threading.active_count()
        with pytest.raises(KafkaError), stop.ending(lambda: None):
            raise KafkaError(ErrorCode.network_exception, "lost")

        assert threading.active_count() == running


@pytest.mark.parametrize("second", STOP_SIGNALS)
def test_a_second_signal_acts_as_if_nobody_listened(second: signal.Signals) -> None:
    with StopSignals():
        signal.raise_signal(signal.SIGTERM)

        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(second)


def test_a_signal_that_was_ignored_stays_ignored() -> None:
    """As in a shell's background job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    with StopSignals() as stop:
        signal.raise_signal(signal.SIGINT)

        assert stop.number is None


def test_who_listened_before_listens_again() -> None:
    with StopSignals():
        pass

    assert {signal.getsignal(number) for number in STOP_SIGNALS} == {signal.default_int_handler}
