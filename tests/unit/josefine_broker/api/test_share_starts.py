"""Where a share group starts in a partition that is new to it (`share.auto.offset.reset`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.engine.groups.share.config import DURATION_MS_MAX, StartAt, start_of
from tests.unit.josefine_broker.api.share_members import Sharer, got
from tests.unit.josefine_broker.api.test_group_configs import give
from tests.unit.josefine_broker.api.world import World, batch_of, world_of

HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("latest", (StartAt.LATEST, 0)),
        ("earliest", (StartAt.EARLIEST, 0)),
        ("by_duration:PT1H", (StartAt.BY_DURATION, HOUR_MS)),
        ("by_duration:P1D", (StartAt.BY_DURATION, 24 * HOUR_MS)),
        ("by_duration:P2DT3H4M5.678S", (StartAt.BY_DURATION, 183_845_678)),
        ("by_duration:pt0.5s", (StartAt.BY_DURATION, 500)),
        ("by_duration:PT0S", (StartAt.BY_DURATION, 0)),
        ("by_duration:PT1.S", (StartAt.BY_DURATION, 1_000)),
    ],
)
def test_start_is_read(text: str, expected: tuple[StartAt, int]) -> None:
    assert start_of(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", "none", "by_duration", "by_duration:", "by_duration:P", "by_duration:PT",
        "by_duration:-PT1H", "by_duration:PT-1H", "by_duration:P1H", "by_duration:PT.5S",
        "by_duration:1h", "by_duration:P1DT", "by_duration:P1W", "LATEST", "earliest:PT1H",
        " by_duration:PT1H",
        f"by_duration:PT{DURATION_MS_MAX // 1_000 + 1}S",
    ],
)  # fmt: skip
def test_start_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        start_of(text)


def aged(*hours: int) -> World:
    """Records that are so old."""
    world = world_of()
    now_ms = world.clock.now_ms()
    for age in hours:
        world.produce(batch_of(b"%d" % age, timestamp_ms=now_ms - age * HOUR_MS))
    return world


@pytest.mark.parametrize(
    ("duration", "acquired"),
    [
        ("PT150M", [(1, 2, 1)]),
        ("PT2H1S", [(1, 2, 1)]),
        ("PT1H59M59.999S", [(2, 2, 1)]),
        ("P9D", [(0, 2, 1)]),
        ("P106751991167D", [(0, 2, 1)]),
        ("PT1M", []),
    ],
)
def test_group_starts_at_the_first_record_that_is_young_enough(
    duration: str, acquired: list[tuple[int, int, int]]
) -> None:
    world = aged(3, 2, 1)
    give(world, share_auto_offset_reset=f"by_duration:{duration}")
    member = Sharer(world, "a").join()
    assert got(member.fetch()) == acquired
    world.produce(batch_of(b"new"))
    assert got(member.fetch()) == [(3, 3, 1)]


def test_lookup_that_fails_is_repeated_and_skips_nothing() -> None:
    world = aged(3, 2, 1)
    give(world, share_auto_offset_reset="by_duration:PT2H1M")
    refused = KafkaError(ErrorCode.request_timed_out, "too many lookups")
    outcomes: list[Any] = [refused, None]

    def work(job: Callable[..., Any], is_wanted: object, done: Callable[[Any], None]) -> None:
        outcome = outcomes.pop(0) if outcomes else job(lambda: None)
        if isinstance(outcome, KafkaError):
            raise outcome
        done(outcome)

    world.ctx.ports.work = work
    member = Sharer(world, "a").join()
    for _ in range(2):
        assert got(member.fetch()) == []
        world.advance(1_000)
    assert (outcomes, got(member.fetch())) == ([], [(1, 2, 1)])


def test_records_that_come_during_the_lookup_are_delivered() -> None:
    world = aged(3, 2)
    give(world, share_auto_offset_reset="by_duration:PT1H")
    pending: list[tuple[Callable[..., Any], Callable[[Any], None]]] = []
    world.ctx.ports.work = lambda job, is_wanted, done: pending.append((job, done))
    member = Sharer(world, "a").join()
    assert got(member.fetch()) == []
    ((job, done),) = pending
    result = job(lambda: None)
    world.produce(batch_of(b"new"))
    done(result)
    assert got(member.fetch()) == [(2, 2, 1)]


def test_lookup_of_a_leader_that_was_deposed_changes_nothing() -> None:
    world = aged(3, 2, 1)
    give(world, share_auto_offset_reset="by_duration:PT2H1M")
    pending: list[tuple[Callable[..., Any], Callable[[Any], None]]] = []
    world.ctx.ports.work = lambda job, is_wanted, done: pending.append((job, done))
    member = Sharer(world, "a").join()
    assert got(member.fetch()) == []
    ((job, done),) = pending
    world.ctx.clients.shares.led.clear()
    done(job(lambda: None))
    assert not world.ctx.clients.shares.led
