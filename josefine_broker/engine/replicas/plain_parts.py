"""The append of plain produce requests of which some have batches for several partitions.

Rules: each partition's batches are appended together, as in `plain_batches.py`. A request with
several partitions takes this path with all of them or with none: every partition is checked before
the first one is appended to, and partitions that a request names together are left to
`api/produce.py` together, with all of their requests, so that nothing overtakes. What cannot be
appended by one write after that (a roll or a sync is due, the disk is full) is appended batch by
batch, as `api/produce.py` does it: the other partitions already have their batches.
"""

from collections.abc import Iterable, Mapping
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
from josefine_broker.records.plain_produce import Key, PlainProduce, PlainRequest

Outcome = int | KafkaError
"""The offset of a batch, or why it was refused."""


class Placed(NamedTuple):
    """The batches of one partition, in the order of their requests."""

    outcomes: list[Outcome]
    log_start_offset: int
    waits: tuple[Wait, ...] = ()
    """The batches that must not be acknowledged yet."""


def append_parts(
    ctx: Context,
    plain: PlainProduce,
    groups: Mapping[Key, list[PlainRequest]],
    linked: Iterable[list[PlainRequest]],
) -> dict[Key, Placed | None]:
    """What became of the requests of each partition; None: nothing was appended. `linked`: requests
    with several partitions, as their parts in `groups`."""
    ready = {key: check_plain(ctx, plain, key, requests) for key, requests in groups.items()}
    left_out = _left_out(ready, [{part[0] for part in parts} for parts in linked])
    found: dict[Key, Placed | None] = {}
    replicas: dict[int, None] = {}
    try:
        for key, requests in groups.items():
            checked = ready[key]
            if checked is None or key in left_out:
                found[key] = None
            else:
                found[key] = _placed(ctx, checked, requests, replicas)
        return found
    finally:
        wake_followers(ctx, replicas)


def _left_out(ready: Mapping[Key, Ready | None], linked: list[set[Key]]) -> set[Key]:
    """The partitions that are not ready, and those that a request names with one of them."""
    left_out = {key for key, checked in ready.items() if checked is None}
    # One partition under its topic's name and id: neither was checked after the other's append.
    names: dict[tuple[str, int], Key] = {}
    for key, checked in ready.items():
        if checked is not None and names.setdefault(checked[0], key) != key:
            left_out.add(key)
    size = -1
    while left_out and len(left_out) != size:
        size = len(left_out)
        for keys in linked:
            if keys & left_out:
                left_out |= keys
    return left_out


def _placed(
    ctx: Context, ready: Ready, requests: list[PlainRequest], replicas: dict[int, None]
) -> Placed:
    tp, hosted, found, _ = ready
    base_offset = append_checked(ctx, ready, requests, replicas)
    if base_offset is None:
        return _placed_one_by_one(ctx, ready, requests)
    start, offset = hosted.log.log_start_offset, base_offset
    outcomes: list[Outcome] = []
    for request in requests:
        outcomes.append(offset)
        offset += request[7]
    if not found[5] or hosted.partition.high_watermark >= offset:
        return Placed(outcomes, start)
    return Placed(outcomes, start, waits_of(ctx, tp, hosted, requests, base_offset))


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
            outcomes.append(error)
            continue
        outcomes.append(offset)
        end_offset = offset + request[7]
        if request[4] == ACKS_ALL and hosted.partition.high_watermark < end_offset:
            ends[place] = request, end_offset
    return Placed(outcomes, hosted.log.log_start_offset, waits_until(ctx, tp, hosted, ends))
