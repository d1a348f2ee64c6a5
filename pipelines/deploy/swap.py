"""The commits of a deploy: fence, swap and rollback of one table. No Spark.

Each is one commit over exactly the version that was read. A commit of others in between (OPTIMIZE)
makes it read again; one of the chain itself makes a swap give up, because its rows are not in the
shadow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from josefine_spark.base.topic_offsets import TopicOffsets
from pipelines.base import failpoints
from pipelines.base.errors import RunError
from pipelines.deploy.table_actions import Replacement, TableState, why_not
from pipelines.deploy.table_log import TableLog, link_files
from pipelines.exactly_once.deployed import (
    DEPLOY,
    DEPLOYED,
    FENCE,
    PREPARE,
    ROLLBACK,
    SWAP,
    Mark,
    mark_of,
)
from pipelines.exactly_once.offset_chain import Commit, Tip
from pipelines.sinks.commits import NO_BATCH, Link, facts_of, said_of
from pipelines.sinks.delta_log import LogEntry

ATTEMPTS = 20
"""Others commit at most a few times a second; each attempt takes milliseconds."""
_WRITES_ROWS = {
    "WRITE", "MERGE", "DELETE", "UPDATE", "TRUNCATE", "STREAMING UPDATE", "RESTORE",
    "REPLACE TABLE AS SELECT", "CREATE OR REPLACE TABLE AS SELECT", "COPY INTO",
    "REPLACE TABLE", "CREATE OR REPLACE TABLE", "CLONE",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Committer:
    """Whose commits these are. `ident`: the deploy's; `run`: this command's, and the mark in each
    of its commits."""

    ident: str
    run: str
    now_ms: Callable[[], int]

    def made(
        self,
        table: TableLog,
        operation: str,
        end: TopicOffsets,
        facts: Mapping[str, Any],
        mark: Mark,
        start: TopicOffsets | None = None,
    ) -> Replacement:
        """The commit of the table's chain that ends at `end`."""
        if mark.step != FENCE:
            facts = {**facts, DEPLOYED: mark.to_json()}
        link = Link(pipeline=table.name.pipeline, sink=table.name.sink, run=self.run, facts=facts)
        txn_version = table.txn_version() + 1
        commit = Commit(start=(start or end).ends, end=end, txn_version=txn_version)
        return Replacement(
            name=table.name,
            txn_version=txn_version,
            said=said_of(link, "", commit, NO_BATCH, {DEPLOY: mark.to_json()}),
            operation=operation,
            now_ms=self.now_ms(),
            mark=self.run,
        )


def newest_step(table: TableLog, *, reads_back: bool = False) -> Mark | None:
    """The mark of the table's newest step that is no fence. Each later commit of a sink repeats it.
    `reads_back`: whether to read the log back to it where the newest commit does not."""
    tip, _ = table.tip()
    mark = mark_of(tip.said, DEPLOYED) if tip else None
    # Dead letters have few commits, and these do not repeat it.
    if mark is not None or not (reads_back or table.name.sink.startswith("dead_letter.")):
        return mark
    marks = (mark_of(entry.metadata) for entry in table.own())
    return next((mark for mark in marks if mark and mark.step != FENCE), None)


def changes_of_others(table: TableLog, since: int, ident: str = "") -> list[str]:
    """The commits after a version that changed rows and are no run's: a deploy would lose them.
    With `ident` also the steps of other deploys."""
    found = []
    for entry in table.reader().after(since):
        mark = mark_of(entry.metadata) if ident else None
        is_other = mark is not None and mark.step != FENCE and mark.ident != ident
        if is_other or _is_of_others(entry):
            found.append(f"version {entry.version} ({entry.operation})")
    return found


def changes_since_swap(table: TableLog, ident: str) -> list[str]:
    """The commits after the newest swap of this deploy that a rollback would take back, although
    no run made them."""
    swaps = (e.version for e in table.own() if _is_swap(mark_of(e.metadata), ident))
    version = next(swaps, None)
    return [] if version is None else changes_of_others(table, version)


def _is_swap(mark: Mark | None, ident: str) -> bool:
    return mark is not None and (mark.ident, mark.step) == (ident, SWAP)


def _is_of_others(entry: LogEntry) -> bool:
    return entry.operation in _WRITES_ROWS and entry.txn_version is None


def fence(table: TableLog, by: Committer) -> Tip | None:
    """Stop the query that continues this chain: it finds a commit of another run. Repeated, it
    commits nothing new. None: the table has no commit of the chain."""
    for _ in range(ATTEMPTS):
        tip, newest = table.tip()
        if tip is None:
            return None
        mark = mark_of(tip.said)
        if _holds(mark, by):
            return tip
        made = by.made(
            table,
            "DEPLOY FENCE",
            tip.reached,
            facts_of(tip),
            Mark(ident=by.ident, step=FENCE, before=newest),
        )
        same = TableState(version=newest)
        table.commit(newest + 1, made.lines(same, same))
    raise _busy(table)


def _holds(mark: Mark | None, by: Committer) -> bool:
    """Whether a chain's newest commit is this deploy's fence or prepare."""
    return mark is not None and mark.ident == by.ident and mark.step in (FENCE, PREPARE)


def prepare(table: TableLog, by: Committer) -> bool:
    """Let no run of any file start until the swap of all tables, or its rollback, is finished: it
    would write into tables of which one is new and the other old. The swap's: after its fence;
    False if the chain has moved since. The rollback's: it stops the run of the new file, too."""
    for _ in range(ATTEMPTS):
        tip, newest = table.tip()
        step, mark = newest_step(table, reads_back=True), mark_of(tip.said) if tip else None
        if tip is None or (mark and _holds(mark, by) and mark.step == PREPARE):
            return True
        takes_back = step is not None and (step.ident, step.step) == (by.ident, SWAP)
        if not takes_back and not _holds(mark, by):
            return False
        # A rollback restores the version before the swap, not the one before this commit.
        before, shadow = (step.before, step.shadow) if step and takes_back else (newest, -1)
        made = by.made(
            table,
            "DEPLOY PREPARE",
            tip.reached,
            facts_of(tip),
            Mark(ident=by.ident, step=PREPARE, before=before, shadow=shadow),
        )
        same = TableState(version=newest)
        table.commit(newest + 1, made.lines(same, same))
    raise _busy(table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a swap puts into a table. `end`: the offsets, if not those of the shadow's chain;
    `facts`: beyond those of its last commit. `since`: the live version whose rows were compared;
    `replaced`: see `Mark`."""

    end: TopicOffsets | None
    facts: Mapping[str, Any]
    since: int
    replaced: str = ""


def swap(live: TableLog, shadow: TableLog, want: Wanted, by: Committer) -> int | None:
    """Replace the rows and the position of a table by its shadow's; returns the version. None: the
    chain has moved since its fence. Raises RunError if others changed rows."""
    shadow_tip, shadow_version = shadow.tip()
    then = shadow.state(shadow_version)
    if not then.metadata or (shadow_tip is None and want.end is None):
        raise RunError(
            f"{shadow.path}: the shadow table is gone: another command has finished or aborted "
            "this deploy; repeat the command to see what is left to do"
        )
    end = want.end or (shadow_tip.reached if shadow_tip else TopicOffsets())
    facts = {**(facts_of(shadow_tip) if shadow_tip else {}), **want.facts}
    # Before the commit, which names them; after a kill no version does.
    link_files(shadow.path, live.path, then)
    failpoints.hit("mid_deploy", 3)
    for _ in range(ATTEMPTS):
        tip, newest = live.tip()
        mark = mark_of(tip.said) if tip else None
        if tip and not _holds(mark, by):
            return None
        if want.since >= 0 and (changes := changes_of_others(live, want.since, by.ident)):
            raise RunError(
                f"{live.path}: others changed rows since the comparison: {', '.join(changes)}; "
                "nothing was swapped here: repeat the command, which compares again"
            )
        now = live.state(newest)
        if wrong := why_not(now) or why_not(then):
            raise RunError(f"{live.path}: {wrong}")
        step = Mark(
            ident=by.ident,
            step=SWAP,
            before=newest,
            shadow=shadow_version,
            replaced=want.replaced,
        )
        start = tip.reached if tip else None
        made = by.made(live, "DEPLOY SWAP", end, facts, step, start)
        if live.commit(newest + 1, made.lines(now, then)):
            return newest + 1
    raise _busy(live)


def rollback(table: TableLog, replaced: str, by: Committer) -> int | None:
    """Take the newest swap of this deploy back: the rows and the position of the version before it.
    None: there is nothing to take back. Raises RunError."""
    mark = newest_step(table, reads_back=True)
    if mark is None or mark.step == ROLLBACK or mark.before < 0:
        return None
    if mark.ident != by.ident:
        raise RunError(
            f"{table.path}: its newest deploy is {mark.ident}, of other files than these "
            f"({by.ident}): name the two files of that one"
        )
    then = table.state(mark.before)
    if gone := table.missing_files(then):
        raise RunError(
            f"{table.path}: VACUUM has deleted {len(gone):,} files of version {mark.before}, "
            f"such as {gone[0]}: the swap cannot be taken back; deploy the old file instead"
        )
    tip, _ = table.tip(mark.before)
    end = tip.reached if tip else TopicOffsets()
    facts = facts_of(tip) if tip else {}
    for _ in range(ATTEMPTS):
        now = table.state(since=then)
        step = Mark(ident=by.ident, step=ROLLBACK, before=now.version, replaced=replaced)
        current, _ = table.tip()
        start = current.reached if current else None
        made = by.made(table, "DEPLOY ROLLBACK", end, facts, step, start)
        if table.commit(now.version + 1, made.lines(now, then)):
            return now.version + 1
    raise _busy(table)


def _busy(table: TableLog) -> RunError:
    return RunError(
        f"{table.path}: others committed {ATTEMPTS} times while one commit was tried; repeat the "
        "command, it continues where it stopped"
    )
