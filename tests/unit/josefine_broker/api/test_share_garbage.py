"""Requests of share groups go without the collector, with the records that they have: it comes
once in ten thousand objects, and a request may have megabytes."""

from __future__ import annotations

import pytest

from josefine_broker.api.share_fetch import WaitingShareFetch
from josefine_broker.api.shared.share_sessions import Acknowledging
from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.coordinators.share_partitions_host import led_share
from josefine_broker.engine.coordinators.share_state_requests import UNKNOWN
from josefine_broker.engine.groups.share.config import ShareConfig
from josefine_broker.engine.purgatory.purgatory import Parked
from tests.support.garbage import alive, uncollected
from tests.unit.josefine_broker.api.share_members import ACCEPT, ack_codes, got
from tests.unit.josefine_broker.api.test_share_groups import sharing
from tests.unit.josefine_broker.api.test_share_refusals import Store, store

__all__ = ["store"]


def test_a_fetch_that_is_answered_at_once() -> None:
    _, member = sharing(b"v0")
    with uncollected():
        assert got(member.fetch()) == [(0, 0, 1)]
        assert not alive(WaitingShareFetch)
        assert ack_codes(member.fetch((0, 0, ACCEPT))) == [ErrorCode.none]
        assert member.acknowledge((0, 0, ACCEPT)) is ErrorCode.none
        assert not alive(WaitingShareFetch)
        assert not alive(Acknowledging)


def test_a_fetch_with_errors() -> None:
    """An error refers to the frames that it was raised in, and these to the request."""
    _, member = sharing(b"v0")
    member.fetch()
    nowhere = next(iter(member.parts))[0], 7
    with uncollected():
        assert ack_codes(member.fetch((5, 9, ACCEPT))) == [ErrorCode.invalid_record_state]
        answer = member.fetch(part=nowhere)
        assert answer.responses[0].partitions[0].error_code is not ErrorCode.none
        del answer
        assert not alive(WaitingShareFetch)
        assert not alive(Acknowledging)


def test_a_fetch_whose_client_is_gone() -> None:
    world, member = sharing()
    with uncollected():
        waiting = member.fetch(max_wait_ms=5_000)
        assert isinstance(waiting, WaitingShareFetch)
        world.ctx.parked.cancel(waiting)
        del waiting
        world.advance(5_000)
        assert not alive(WaitingShareFetch)


@pytest.mark.parametrize("is_fetch", [True, False])
def test_a_request_that_waits_until_its_answers_are_stored(store: Store, is_fetch: bool) -> None:
    world, member = sharing(b"v0")
    member.fetch()
    with uncollected():
        store.outcome = UNKNOWN
        ask = member.fetch if is_fetch else member.acknowledge
        waiting = ask((0, 0, ACCEPT))
        assert isinstance(waiting, Parked)
        store.outcome = None
        world.advance(1_000)
        assert waiting.done
        del waiting
        assert not alive(WaitingShareFetch)
        assert not alive(Acknowledging)


def test_an_error_that_is_raised_again_does_not_grow() -> None:
    world, _ = sharing()
    ctx = world.ctx
    key, led = next(iter(ctx.clients.shares.led.items()))
    led.partition = None
    led.reading.error = KafkaError(ErrorCode.coordinator_not_available)
    led.reading.retry_ms = ctx.clock.monotonic_ms() + 1
    frames = set[int]()
    for _ in range(3):
        with pytest.raises(KafkaError) as caught:
            led_share(ctx, key, ShareConfig())
        frames.add(len(caught.traceback))
    assert len(frames) == 1
