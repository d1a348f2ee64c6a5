"""The cut-over: the rest is copied, groups get their offsets, and clients may write.

Rules: the topic is given up by its mirror only when its partitions end where the source's do, with
no transaction open there: its marker would be written to the source, and never come here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.client.effects import Operation
from josefine_broker.client.group_admin import all_committed, list_groups
from josefine_broker.client.io_blocking import BlockingClient
from josefine_broker.client.session import Session
from josefine_cli.base.errors import UserError
from josefine_cli.mirror.configs import SESSION
from josefine_cli.mirror.copier import Copier
from josefine_cli.mirror.plan import Ends, group_moves
from josefine_cli.mirror.sides import Source, ends_of, mirror_configs, new_session, release

GROUP_TYPES = ("classic", "consumer", "")
"""Empty: of a broker that does not know types. The offsets of share groups are of another kind."""


QUIET_S = 1.0
"""How long no append arrives before a mirror counts as ended."""


class Cut(NamedTuple):
    """What a cut-over did."""

    ends: dict[TopicPartition, int]
    groups: dict[str, int]
    """Group → its offsets that are here now."""
    skipped: dict[str, str]
    """Group → why its offsets are not."""


def cut_over(
    source: BlockingClient,
    target: BlockingClient,
    copier: Copier,
    topics: Mapping[str, Source],
    groups: Iterable[str],
    timeout_s: float,
    note: Callable[[str], None],
) -> Cut:
    """End the mirrors of these topics, whose partitions `copier` has. Raises UserError, KafkaError;
    then they are still mirrors."""
    until_s = time.monotonic() + timeout_s
    ends = _copy_rest(source, copier, until_s)
    until = {tp: end.end for tp, end in ends.items()}
    copied, skipped = copy_groups(source, target, groups, until, {})
    if _moved(ends, ends_of(source, ends)):
        raise UserError("the source was written to during the cut-over: stop its producers first")
    for topic in topics:
        release(target, topic, {tp.partition: e.end for tp, e in ends.items() if tp.topic == topic})
    moved = _moved(ends, ends_of(source, ends))
    if moved is not None:
        note(f"warning: {moved} of the source was written to after the cut-over: those records are "
             "not here")  # fmt: skip
    return Cut({tp: end.end for tp, end in ends.items()}, copied, skipped)


def cut_over_as_is(
    target: BlockingClient, topics: Iterable[str], note: Callable[[str], None]
) -> Cut:
    """End the mirrors of these topics with the records that they have. Raises UserError,
    KafkaError."""
    session, found = new_session(), {}
    names = list(dict.fromkeys(topics))
    # All before the first change, which ends the mirror that runs.
    for topic in names:
        configs = mirror_configs(target, topic)
        if configs is None or SESSION not in configs or not configs[SESSION].value:
            raise UserError(f"topic '{topic}' is not a mirror: `josefine mirror status` lists them")
    for topic in names:
        target.alter_configs({topic: {SESSION: session}})
        found[topic] = target.metadata([topic]).partitions_of(topic)
    tps = [tp for each in found.values() for tp in each]
    # An append of the session before may be under way to a leader that has not heard of this one.
    ends = ends_of(target, tps)
    while True:
        time.sleep(QUIET_S)
        before, ends = ends, ends_of(target, tps)
        if _moved(before, ends) is None:
            break
    for tp, end in ends_of(target, tps, stable=True).items():
        if end.end < ends[tp].end:
            note(
                f"warning: a transaction of the source is open in {tp} from offset {end.end} on: "
                "abort it with `josefine transactions abort`, or read_committed consumers wait"
            )
    for topic in found:
        release(target, topic, {tp.partition: e.end for tp, e in ends.items() if tp.topic == topic})
    return Cut({tp: end.end for tp, end in ends.items()}, {}, {})


def _copy_rest(
    source: BlockingClient, copier: Copier, until_s: float
) -> dict[TopicPartition, Ends]:
    """Copy until the mirror ends where the source does, without an open transaction. Raises
    UserError, KafkaError."""
    while True:
        if copier.verdicts:
            tp, verdict = next(iter(sorted(copier.verdicts.items())))
            raise UserError(f"{tp}: {verdict}")
        tps = list(copier.parts)
        ends, stable = ends_of(source, tps), ends_of(source, tps, stable=True)
        lagging = [tp for tp in tps if copier.parts[tp].position < ends[tp].end]
        is_open = [tp for tp in tps if stable[tp].end < ends[tp].end]
        if not lagging and not is_open and _moved(ends, ends_of(source, tps)) is None:
            copier.pause()
            copier.follow_starts({tp: end.start for tp, end in ends.items()})
            return ends
        if time.monotonic() > until_s:
            raise UserError(_why_not(lagging, is_open))
        if lagging:
            copier.step()
        else:
            time.sleep(0.05)


def _why_not(lagging: list[TopicPartition], is_open: list[TopicPartition]) -> str:
    if is_open:
        return (
            f"a transaction is open in {is_open[0]} of the source: end it, or abort it with "
            "`josefine transactions abort` there, and cut over again"
        )
    what = f"{lagging[0]} of the source" if lagging else "the source"
    return f"{what} is still written to: stop its producers, and cut over again"


def _moved(
    before: Mapping[TopicPartition, Ends], after: Mapping[TopicPartition, Ends]
) -> TopicPartition | None:
    """A partition whose end is another one by now."""
    return next((tp for tp, end in after.items() if end.end != before[tp].end), None)


def _committed(
    group: str, session: Session, now_ms: int, deadline_ms: int
) -> Operation[dict[TopicPartition, int]]:
    return all_committed(session, group, now_ms, deadline_ms)


def matching_groups(client: BlockingClient, patterns: Iterable[str]) -> list[str]:
    """The consumer groups with one of these patterns. Raises KafkaError."""
    wanted = tuple(patterns)
    if not wanted:
        return []
    return [
        each.group
        for each in client.run(lambda s, t, d: list_groups(s, (), t, d))
        if each.group_type.lower() in GROUP_TYPES
        and any(fnmatchcase(each.group, pattern) for pattern in wanted)
    ]


def copy_groups(
    source: BlockingClient,
    target: BlockingClient,
    patterns: Iterable[str],
    ends: Mapping[TopicPartition, int],
    last: dict[str, dict[TopicPartition, int]],
) -> tuple[dict[str, int], dict[str, str]]:
    """Commit the offsets of the source's groups in these partitions here, at most the end of each;
    a group that is further here stays there. Returns how many of each group, and the groups whose
    offsets could not be committed. `last`: by group, what was committed here before, which it
    updates."""
    copied: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for group in matching_groups(source, patterns):
        found = source.run(partial(_committed, group))
        offsets = {tp: min(offset, ends[tp]) for tp, offset in found.items() if tp in ends}
        if not offsets:
            continue
        try:
            ours = target.committed_offsets(group, offsets)
            moves = group_moves(offsets, ours, last.get(group, {}))
            if moves:
                target.commit_offsets(group, moves)
                last.setdefault(group, {}).update(moves)
        except KafkaError as error:
            skipped[group] = error.message
        else:
            copied[group] = len(offsets)
    return copied, skipped
