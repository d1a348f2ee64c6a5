"""The start of a table's writer: its table, the topic and the group's offsets agree, or it stops.

The table decides. Its newest commit has the offsets to continue from; a table without one starts at
the topic's first record. The group's committed offsets are a second witness: the writer commits
them after each Delta commit, so they are never ahead of the table. If they are, the table was
restored to an older version, dropped or created again. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from josefine_broker.base.ids import TopicPartition
from josefine_lake.config.table_topic import TableTopic
from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from josefine_spark.read.offsets import Bounds
from pipelines.exactly_once.checkpoint_start import LETTERS, Unreadable, dead_letters_gone
from pipelines.exactly_once.data_loss import losses
from pipelines.exactly_once.dead_letter_chain import raised
from pipelines.exactly_once.offset_chain import HandedOn, Stop, Tip, Verdict
from pipelines.exactly_once.other_chains import (
    ChainName,
    OtherChain,
    TakeOver,
    begins,
    name_of,
    rename_options,
)

Found = Tip | Unreadable | HandedOn | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """The topic as its brokers have it. `bounds`: the offsets of each partition."""

    name: str
    id: str
    bounds: Mapping[TopicPartition, Bounds]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """All that a start looks at. `dead`: the newest commit in the dead-letter table."""

    topic: Topic
    found: Found
    others: Sequence[OtherChain] = ()
    dead: Found = None
    committed: ByPartition = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """The writer may start. `positions`: the next offset of each partition; `tip` and `dead`: the
    commits that the next ones continue."""

    positions: ByPartition
    tip: Tip | None
    dead: Tip | None


def taken_over(
    own: ChainName, others: Sequence[OtherChain], topic: Topic, renames: Mapping[str, str]
) -> TakeOver | Stop | None:
    """Whether a chain under an old name is continued as `own`. `renames`: old name → new name, of a
    pipeline and its sink or source; None: none of them names one."""
    if not renames:
        return None
    return begins(own, others, {topic.name: topic.id}, renames=renames, new_chains=(own.sink,))


def start(table: TableTopic, sides: Sides, *, trust: bool = False) -> Ready | Stop:
    """Decide. `trust`: the user declared the table right, whatever topic and group have."""
    tip = sides.found
    # First what no option can settle: without readable offsets nothing can be continued.
    if isinstance(tip, Unreadable):
        return Stop(verdict=Verdict.TABLE_UNREADABLE, detail=tip.hint)
    if isinstance(tip, HandedOn):
        detail = f"the table was handed on to {tip.to}, which writes it now"
        old = name_of(tip.to)
        if old is not None:
            # A pipeline that still runs stops at its next commit: the chain is not its own then.
            options = rename_options(table.chain, old)
            detail += (
                f"; to take it back, stop that and run `josefine tables run --topic {table.topic}"
                f" --once {options}`"
            )
        return Stop(verdict=Verdict.OTHER_CHAIN, detail=detail)
    if isinstance(sides.dead, Unreadable | HandedOn):
        return Stop(verdict=Verdict.TABLE_UNREADABLE, detail="that of the dead letters")
    ids = {sides.topic.name: sides.topic.id}
    if tip is None or not tip.reached.ends:
        begun = begins(table.chain, sides.others, ids, renames={}, new_chains=())
        if isinstance(begun, Stop):
            return begun
    # An archive is read by offsets alone, so it has room for one topic of its name, trusted or not.
    is_settled = trust and not (table.is_archive and tip and tip.reached.recreated(ids))
    wrong = None if is_settled else _contradiction(table, tip, sides, ids)
    if wrong is not None:
        return wrong
    dead = raised(sides.dead, tip, table.dead_letter) if tip else sides.dead
    if tip is not None and tip.reached.recreated(ids):
        # Trusted: the old topic's rows stay, and its offsets mean nothing in the new one.
        tip = _without(tip, sides.topic.name)
        dead = None if dead is None else _without(dead, sides.topic.name)
    return _ready(tip, dead, sides.topic)


def _contradiction(
    table: TableTopic, tip: Tip | None, sides: Sides, ids: Mapping[str, str]
) -> Stop | None:
    """The first thing in which the sides differ."""
    ends = tip.reached.ends if tip else {}
    if tip is not None and (gone := tip.reached.recreated(ids)):
        found = tuple(sorted(p for p in ends if p.topic in gone))
        return Stop(verdict=Verdict.TOPIC_RECREATED, partitions=found)
    # An offset that nobody committed for a partition is no evidence: 0 records is 0 rows.
    ahead = tuple(sorted(p for p, end in sides.committed.items() if ends.get(p, 0) < end))
    if ahead:
        verdict = Verdict.TABLE_BEHIND if ends else Verdict.TABLE_HAS_NOTHING
        return Stop(verdict=verdict, partitions=ahead)
    if tip is None:
        return None
    known = TopicOffsets(
        ends={p: end for p, end in ends.items() if p in sides.topic.bounds}, topic_ids=ids
    )
    lost = losses(known, ids, sides.topic.bounds, skip=False)
    if isinstance(lost, Stop):
        return lost
    dead = sides.dead if isinstance(sides.dead, Tip) else None
    if LETTERS in tip.said and dead_letters_gone(tip, dead, table.dead_letter):
        return Stop(verdict=Verdict.DEAD_LETTERS_GONE, detail=table.dead_letter or "")
    return None


def _ready(tip: Tip | None, dead: Tip | None, topic: Topic) -> Ready:
    """Each partition at the table's end; a new one, or one whose records are lost, at its first."""
    ends = tip.reached.ends if tip else {}
    positions = {
        p: min(max(ends.get(p, 0), bounds.earliest), bounds.latest)
        for p, bounds in topic.bounds.items()
    }
    moved = {p: at for p, at in positions.items() if p in ends}
    if tip is not None and moved:
        # The chain continues at these offsets: they differ from its end only if that is trusted.
        tip = replace(tip, reached=replace(tip.reached, ends={**ends, **moved}))
    return Ready(positions=positions, tip=tip, dead=dead)


def _without(tip: Tip, topic: str) -> Tip:
    return replace(tip, reached=tip.reached.without([topic]))
