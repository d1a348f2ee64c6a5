"""The append of plain produce requests of which some have batches for several partitions.

Rules: each partition's batches are appended together, as in `plain_batches.py`. A request with
several partitions takes this path with all of them or with none: every partition is checked before
the first one is appended to, and partitions that a request names together are left to
`api/produce.py` together, with all of their requests, so that nothing overtakes. What cannot be
appended by one write after that (a roll or a sync is due, the disk is full) is appended batch by
batch, as `api/produce.py` does it: the other partitions already have their batches.
"""

from typing import NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.engine.context import Context
from josefine_broker.engine.partition.partition import ACKS_ALL
from josefine_broker.engine.replicas.batches import append_batch
from josefine_broker.engine.replicas.leading import wake_followers
from josefine_broker.engine.replicas.plain_batches import (
    Ready,
    Wait,
    append_checked,
    check_plain,
    waits_of,
    waits_until,
)
from josefine_broker.engine.validation.produced_batch import Validated
from josefine_broker.records.batch import parse_header
from josefine_broker.records.plain_produce import PlainProduce, PlainRequest

_new = tuple.__new__  # a NamedTuple's own constructor costs three times as much

Outcome = int | KafkaError
"""The offset of a batch, or why it was refused."""


class Placed(NamedTuple):
    """The batches of one partition, in the order of their requests."""

    outcomes: list[Outcome]
    log_start_offset: int
    waits: tuple[Wait, ...] = ()
    """The batches that must not be acknowledged yet."""


def append_parts(
    ctx: Context, plain: PlainProduce, groups: list[list[PlainRequest]], linked: list[list[int]]
) -> list[Placed | None]:
    """What became of the requests of each partition, which are a group; None: nothing was appended.
    `linked`: of each request with several partitions, its groups."""
    now_ms = ctx.clock.now_ms()
    ready = [check_plain(ctx, plain, group[0][0], group, now_ms) for group in groups]
    left_out = _left_out(groups, ready, linked)
    found: list[Placed | None] = []
    replicas: dict[int, None] = {}
    try:
        for number, checked in enumerate(ready):
            if checked is None or number in left_out:
                found.append(None)
            else:
                found.append(_placed(ctx, checked, groups[number], replicas))
        return found
    finally:
        if replicas:
            wake_followers(ctx, replicas, ctx.clock.monotonic_ms())


def _left_out(
    groups: list[list[PlainRequest]], ready: list[Ready | None], linked: list[list[int]]
) -> set[int]:
    """The groups that are not ready, and those that a request names with one of them."""
    left_out = {number for number, checked in enumerate(ready) if checked is None}
    # One partition under its topic's name and id: neither was checked after the other's append.
    if len({group[0][0][2] for group in groups}) > 1:
        seen: set[tuple[str, int]] = set()
        for number, checked in enumerate(ready):
            if checked is not None and checked[0] in seen:
                left_out.add(number)
            elif checked is not None:
                seen.add(checked[0])
    size = 0
    while len(left_out) != size:
        size = len(left_out)
        for numbers in linked:
            if not left_out.isdisjoint(numbers):
                left_out.update(numbers)
    return left_out


def _placed(
    ctx: Context, ready: Ready, requests: list[PlainRequest], replicas: dict[int, None]
) -> Placed:
    tp, hosted, found, _ = ready
    base_offset = append_checked(ctx, ready, requests, replicas)
    if base_offset is None:
        return _placed_one_by_one(ctx, ready, requests)
    outcomes: list[Outcome] = []
    offset = base_offset
    for request in requests:
        outcomes.append(offset)
        offset += request[7]
    waits: tuple[Wait, ...] = ()
    if found[5] and hosted.partition.high_watermark < offset:
        waits = waits_of(ctx, tp, hosted, requests, base_offset)
    return _new(Placed, (outcomes, hosted.log.log_start_offset, waits))


def _placed_one_by_one(ctx: Context, ready: Ready, requests: list[PlainRequest]) -> Placed:
    """As `api/produce.py` stores validated batches. Nothing but the log refuses one of these, and
    what follows a refused one of its producer."""
    tp, hosted, _, now_ms = ready
    outcomes: list[Outcome] = []
    ends: dict[int, tuple[PlainRequest, int]] = {}
    for place, request in enumerate(requests):
        batch = request[1][request[5] : request[5] + request[6]]
        validated = Validated(batch, parse_header(batch))
        try:
            offset, _ = append_batch(ctx, tp, hosted, validated, request[4], now_ms)
        except KafkaError as error:
            outcomes.append(error.without_frames())
            continue
        outcomes.append(offset)
        end_offset = offset + request[7]
        if request[4] == ACKS_ALL and hosted.partition.high_watermark < end_offset:
            ends[place] = request, end_offset
    return Placed(outcomes, hosted.log.log_start_offset, waits_until(ctx, tp, hosted, ends))
