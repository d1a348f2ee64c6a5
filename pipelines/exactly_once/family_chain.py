"""The chains of a table family: one per table, and the sink's own in the family's registry. Pure.

The sink's chain has the offsets up to which all tables have their rows. A batch is committed to the
tables first, each with the batch's end offsets, and to the registry last. So after a crash in
between the batch is planned again, and each table leaves out the rows below its own end: a row's
topic, partition and offset are known until the write. A table of `{topic}` has the offsets of its
topics alone; a table of `{column}` those of the last batch that had rows for it.

A table that cannot be written is held: its chain does not move, and the registry records from which
offsets it lacks rows. The next start reads from there again; the other tables have those rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets, flat, nested
from pipelines.exactly_once.offset_chain import Commit, Skip, Stop, Tip, Verdict

TABLES, HELD, HELD_FROM, NUMBER = "tables", "held", "held_from", "number"
"""Keys in the metadata: of the registry's commits, and (`number`) of those of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What the registry knows. `tables`: name → the transaction version of its last commit; 0
    before its first one. `held`: name → why it is not written. `held_from`: the offsets from which
    held tables lack rows."""

    tables: Mapping[str, int] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    held_from: ByPartition = field(default_factory=dict)

    def said(self) -> dict[str, Any]:
        """For the metadata of a commit of the registry."""
        found: dict[str, Any] = {TABLES: dict(self.tables)}
        if self.held:
            found |= {HELD: dict(self.held), HELD_FROM: nested(self.held_from)}
        return found

    def after(
        self,
        commit: Commit,
        written: Mapping[str, int],
        failed: Mapping[str, str],
        named: Callable[[str], str | None] | None,
    ) -> Family:
        """The family after a batch. `written`: table → transaction version; `failed`: table → why;
        `named`: topic → table, None for tables of `{column}`."""
        held, held_from = {**self.held, **failed}, dict(self.held_from)
        # Also for tables that were held before: a partition that is new in this batch has rows for
        # them, and the registry's end would be past those.
        for partition, start in commit.start.items():
            lacks = bool(held) if named is None else named(partition.topic) in held
            if lacks:
                held_from[partition] = min(start, held_from.get(partition, start))
        return Family(
            tables={**dict.fromkeys(failed, 0), **self.tables, **written},
            held=held,
            held_from=held_from,
        )


def family_said(said: Mapping[str, Any]) -> Family:
    """The family by the metadata of the registry's last commit."""
    return Family(
        tables={str(name): int(number) for name, number in said.get(TABLES, {}).items()},
        held={str(name): str(why) for name, why in said.get(HELD, {}).items()},
        held_from=flat(said.get(HELD_FROM, {})),
    )


def is_held(tip: object) -> bool:
    """Whether a sink's last commit names held tables: its start reads from `held_from` again."""
    return isinstance(tip, Tip) and bool(tip.said.get(HELD))


def with_held(tip: Tip) -> Tip:
    """The sink's position: all tables have their rows up to these offsets."""
    held_from = flat(tip.said.get(HELD_FROM, {}))
    if not held_from:
        return tip
    ends = {p: min(end, held_from.get(p, end)) for p, end in tip.reached.ends.items()}
    # A partition that the registry does not know was new in the batch that failed.
    return replace(tip, reached=replace(tip.reached, ends={**held_from, **ends}))


def due_names(commit: Commit, named: Callable[[str], str | None]) -> dict[str, list[str]]:
    """Table → its topics, of the topics in which a batch has offsets. `named`: topic → table."""
    found: dict[str, list[str]] = {}
    for topic in sorted(
        {p.topic for p, end in commit.end.ends.items() if commit.start.get(p, end) < end}
    ):
        name = named(topic)
        if name is not None:
            found.setdefault(name, []).append(topic)
    return found


def decide_for_table(
    commit: Commit, tip: Tip | None, topics: Collection[str] | None = None
) -> Commit | Skip:
    """Decide on a batch of the sink for one of its tables. `commit`: the sink's; `topics`: those of
    the table, None for a table of `{column}`. The table may end before the batch starts: there
    were no rows for it, or a start has passed over a loss. A table that lacks commits is found by
    `why_not_continued`."""
    end = commit.end
    if topics is not None:
        end = end.without({p.topic for p in end.ends} - {*topics})
    known: ByPartition = {}
    if tip is not None:
        # The start of the sink has judged recreated topics; their old offsets mean nothing here.
        known = tip.reached.without(tip.reached.recreated(end.topic_ids)).ends
    starts = {p: commit.start[p] for p in end.ends if p in commit.start}
    if all(known.get(p, -1) >= offset for p, offset in end.ends.items()):
        return Skip()
    below = {p: known[p] for p in end.ends if known.get(p, 0) > starts.get(p, 0)}
    # The table's chain links to its own last commit: it lacks nothing in between.
    links = {**starts, **{p: known[p] for p in end.ends if p in known}}
    ends = {p: max(offset, known.get(p, 0)) for p, offset in end.ends.items()}
    reached = tip.reached.ends if tip else {}
    ids = tip.reached.topic_ids if tip else {}
    return Commit(
        start={**reached, **links},
        end=TopicOffsets(ends={**reached, **ends}, topic_ids={**ids, **end.topic_ids}),
        txn_version=(tip.txn_version if tip else 0) + 1,
        skip_below=below,
    )


def as_they_are(
    tip: Tip,
    family: Family,
    found: Mapping[str, Tip | None],
    named: Callable[[str], str | None] | None,
) -> tuple[Tip, Family]:
    """With `--trust table`: the position from which tables that lack commits get their rows again,
    and the family without those commits. `found`: table → its last commit; `named`: topic → table,
    None for tables of `{column}`."""
    ends, tables = dict(tip.reached.ends), dict(family.tables)
    for name, own in found.items():
        if why_not_continued(own, tables[name]) is None:
            continue
        tables[name] = _number(own)
        there = own.reached.ends if own is not None else {}
        for partition, end in ends.items():
            if named is None or named(partition.topic) == name:
                ends[partition] = min(end, there.get(partition, 0))
    return replace(tip, reached=replace(tip.reached, ends=ends)), replace(family, tables=tables)


def _number(tip: Tip | None) -> int:
    """The transaction version of the commit at `tip`. Its `txn_version` also counts commits that a
    RESTORE took back."""
    return int(tip.said.get(NUMBER, tip.txn_version)) if tip is not None else 0


def why_not_continued(tip: Tip | None, expected: int) -> Stop | None:
    """Why a table cannot be written: it lacks commits that the registry knows. `expected`: the
    transaction version of its last commit there, 0 if it knows none."""
    if _number(tip) >= expected:
        return None
    what = "it was deleted" if tip is None else "it was restored to an earlier version"
    return Stop(verdict=Verdict.TABLE_BEHIND, detail=what)
