"""Start of a sink from its checkpoint and its table, before any query runs. Pure.

Spark alone would follow the checkpoint, and without one start again: rows would be written twice.
Here both sides must agree, or one be absent; otherwise a person decides which one to trust.

- Lost or new checkpoint: the sink starts at the end offsets of its table's last commit.
- No commit of this sink in the table either: it starts by the source's `start`.
- A sink with a state cannot start without its checkpoint: `state_chain`.
- Both there: they agree when the table's end is the end of the last committed or of the last
  planned batch. Spark replays a planned batch, and `offset_chain.decide` skips it when the table
  has it.

`run/settle_start.py` reads both sides and executes what is decided here.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from enum import Enum

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, flat
from pipelines.exactly_once.offset_chain import Stop, Tip, Verdict

LETTERS = "letters"
"""The key in a sink's commit for the dead-letter table's end offsets at that time."""


class Trust(Enum):
    """The side that the user declared right when table and checkpoint differ."""

    NEITHER = "neither"
    TABLE = "table"
    CHECKPOINT = "checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A batch in the checkpoint's offset log."""

    batch: int
    end: TopicOffsets


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A sink's checkpoint. `committed` is None before the first batch is committed; until then
    `continues` has the table's end offsets from which the checkpoint started."""

    planned: Recorded | None
    committed: Recorded | None
    damaged: str = ""
    continues: ByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """The table has a transaction of this sink, but its offsets cannot be read any more."""

    txn_version: int
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The sink may start. `at`: its offsets; None: by the source's `start`. `tip`: the commit that
    the first batch must continue."""

    at: ByPartition | None
    tip: Tip | None
    set_checkpoint_aside: bool = False


def reconcile(
    checkpoint: Checkpoint | None,
    tip: Tip | Unreadable | None,
    trust: Trust = Trust.NEITHER,
    *,
    assigned: Collection[TopicPartition] = (),
) -> Start | Stop:
    """Compare both sides. A Stop under `trust` means that the trusted side cannot be followed.

    `assigned`: the only partitions that are read, if the file has `assign`; the table keeps its end
    offsets in the others.

    `trust` counts also when both sides agree: a batch may have stopped later, because a topic came
    back to the subscription that the table knows and the checkpoint has forgotten.
    """
    if trust is Trust.TABLE and not isinstance(tip, Unreadable):
        # A table without a commit of this sink means the source's `start`.
        return Start(at=_starting(None, tip), tip=tip, set_checkpoint_aside=True)
    verdict = _verdict(checkpoint, _reading(tip, checkpoint, assigned))
    if verdict is None:
        assert not isinstance(tip, Unreadable)
        if trust is Trust.CHECKPOINT and tip is not None:
            tip = _forgetting(tip, checkpoint)
        return Start(at=_starting(checkpoint, tip), tip=tip)
    if trust is Trust.CHECKPOINT and checkpoint and checkpoint.committed and not checkpoint.damaged:
        committed = checkpoint.committed
        version = tip.txn_version if tip else 0
        follow = Tip(reached=replace(committed.end, first={}), txn_version=version)
        return Start(at=committed.end.ends, tip=follow)
    detail = checkpoint.damaged if checkpoint else ""
    if isinstance(tip, Unreadable):
        detail = tip.hint
    return Stop(verdict=verdict, detail=detail)


def dead_letters_gone(
    tip: Tip | None, dead: Tip | None, where: str | None, others: Collection[str] = ()
) -> bool:
    """Whether a sink's batches wrote dead letters to `where`, which now lacks their commits.
    `others`: the topics of the sources that the dead letters' source is joined with.

    Each commit records the dead-letter table's end offsets. In versions before that, each batch
    committed to the dead-letter table, also without a bad record, so an empty table is a loss. A
    new path or name in the file is no loss: the dead letters are still at the old one.
    """
    if tip is None or tip.said.get("dead_letters") != where:
        return False
    there = dead.reached if dead else TopicOffsets()
    if LETTERS not in tip.said:
        return not there.ends
    other = there.recreated(tip.reached.topic_ids) | {*others}
    known = flat(tip.said[LETTERS])
    return any(there.ends.get(p, 0) < end for p, end in known.items() if p[0] not in other)


def _starting(checkpoint: Checkpoint | None, tip: Tip | None) -> ByPartition | None:
    """The start offsets for the source, which Spark requests until batch 0 is committed.

    A planned batch 0 keeps its planned start: `earliest` may be later by now.
    """
    if tip is not None:
        return tip.reached.ends or None
    return (checkpoint.planned.end.first or None) if checkpoint and checkpoint.planned else None


def _forgetting(tip: Tip, checkpoint: Checkpoint | None) -> Tip:
    """The tip without the partitions that the checkpoint does not know."""
    if checkpoint is None or checkpoint.planned is None:
        return tip
    known = checkpoint.planned.end
    ends = {
        partition: end for partition, end in tip.reached.ends.items() if partition in known.ends
    }
    # The checkpoint's topic ids, too: a topic that it has under another id is another topic.
    kept = TopicOffsets(ends=ends, topic_ids=known.topic_ids)
    return Tip(reached=kept, txn_version=tip.txn_version)


def leaves_out(checkpoint: Checkpoint | None, assigned: Collection[TopicPartition]) -> bool:
    """Whether a checkpoint has partitions that are read no more: Spark would fail without them."""
    planned = checkpoint.planned if checkpoint else None
    if planned is None or not assigned:
        return False
    return any(partition not in assigned for partition in planned.end.ends)


def _reading(
    tip: Tip | Unreadable | None,
    checkpoint: Checkpoint | None,
    assigned: Collection[TopicPartition],
) -> Tip | Unreadable | None:
    """The tip without the partitions that are neither assigned nor in the checkpoint."""
    if not isinstance(tip, Tip) or not assigned:
        return tip
    planned = checkpoint.planned.end.ends if checkpoint and checkpoint.planned else {}
    ends = {p: end for p, end in tip.reached.ends.items() if p in assigned or p in planned}
    return replace(tip, reached=replace(tip.reached, ends=ends))


def _verdict(checkpoint: Checkpoint | None, tip: Tip | Unreadable | None) -> Verdict | None:
    if isinstance(tip, Unreadable):
        return Verdict.TABLE_UNREADABLE
    # A folder without a planned batch is as good as none: the table alone decides.
    if checkpoint is None or (checkpoint.planned is None and not checkpoint.damaged):
        return None
    if checkpoint.damaged:
        return Verdict.CHECKPOINT_DAMAGED
    # From here on the checkpoint has at least a planned batch.
    planned, committed = checkpoint.planned, checkpoint.committed
    assert planned is not None
    if tip is None:
        return Verdict.TABLE_HAS_NOTHING if committed or checkpoint.continues else None
    if _at(tip, planned) or (committed and _at(tip, committed, planned.end.first)):
        return None
    if _recreated(tip, planned):
        return Verdict.TOPIC_RECREATED
    if committed is None:
        ends = tip.reached.ends
        if any(ends.get(p, 0) < end for p, end in checkpoint.continues.items()):
            return Verdict.TABLE_BEHIND
        if _continues(tip, planned):
            return None
        ahead = any(d > 0 for d in _differences(tip, planned))
        return Verdict.TABLE_AHEAD if ahead else Verdict.TABLE_ELSEWHERE
    differences = _differences(tip, committed)
    # Mixed signs: neither side is simply older, so neither can follow the other.
    lags = any(d < 0 for d in differences)
    if lags and any(d > 0 for d in differences):
        return Verdict.TABLE_ELSEWHERE
    return Verdict.TABLE_BEHIND if lags else Verdict.TABLE_AHEAD


def _at(tip: Tip, recorded: Recorded, begun: ByPartition | None = None) -> bool:
    """Whether the table is at the batch's end. The table may know topics that have left since, but
    no further partitions of the topics that are read. `begun`: the first offsets of partitions that
    are new in the next batch; the table may have them already (`startup_steps.Step.ANCHOR`)."""
    ends = {p: end for p, end in tip.reached.ends.items() if not begun or begun.get(p) != end}
    known = {p: end for p, end in tip.reached.ends.items() if p in recorded.end.ends}
    at = replace(tip, reached=replace(tip.reached, ends=ends | known))
    return not _differences(at, recorded) and not _recreated(tip, recorded)


def _differences(tip: Tip, recorded: Recorded) -> list[int]:
    """By how much the table leads (above 0) or lags (below 0), where the two are not equal."""
    table, planned = tip.reached.ends, recorded.end.ends
    topics = {topic for topic, _ in planned}
    # A partition of a topic that is read, and not in the batch: the table is ahead there.
    unknown = (p for p in table if p[0] in topics and p not in planned)
    differences = [table.get(p, -1) - end for p, end in planned.items()]
    return [d for d in differences if d != 0] + [1 for _ in unknown]


def _continues(tip: Tip, planned: Recorded) -> bool:
    """Whether a planned batch 0 starts where the table ends."""
    return all(tip.reached.ends.get(p, first) == first for p, first in planned.end.first.items())


def _recreated(tip: Tip, recorded: Recorded) -> bool:
    return bool(tip.reached.recreated(recorded.end.topic_ids))
