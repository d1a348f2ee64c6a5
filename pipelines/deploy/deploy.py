"""A deploy: what differs, shadow tables up to the live offsets, the diff of rows, swap, rollback.

The command has no state of its own. What is done is in the tables: a shadow's chain has its end
offsets, a live table's newest deploy commit names the deploy that it is of. So a repetition of the
command continues where a died one stopped, and two at once are one: the second one's commits find
the first one's.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.base import failpoints
from pipelines.base.errors import PipelineError, RunError, SetupError
from pipelines.deploy.row_diff import RowDiff, diff_rows
from pipelines.deploy.shadow import (
    Pair,
    Span,
    begun_of,
    checkpoint_path,
    clamped,
    deploy_id,
    missing_rows,
    pairs_of,
    recreated,
    refusals,
    shadow_of,
    span_of,
)
from pipelines.deploy.swap import (
    Committer,
    Wanted,
    changes_of_others,
    fence,
    newest_step,
    rollback,
    swap,
)
from pipelines.deploy.table_actions import why_not
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.deployed import SWAP
from pipelines.exactly_once.offset_chain import Tip
from pipelines.model.meaning import fingerprint
from pipelines.model.pipeline import Pipeline, Source
from pipelines.model.plan import compile_plan
from pipelines.report.events import Reporter
from pipelines.run.run import run_sinks
from pipelines.sinks.targets import target_of
from pipelines.sources.at_once import look_at_once
from pipelines.sources.josefine import Topics
from pipelines.sources.kinds import AnyKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROUNDS = 5
"""How often a swap fences and catches up, while a supervisor starts the old pipeline again."""


class _NoGroups(AnyKind):
    """The kind of a source whose run reports no offsets to consumer groups."""

    def advise(self, source: Source, group: str, ends: ByPartition) -> str:
        """The groups are those of the live pipeline."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The live tables at one moment. `at`: table → (the chain's end, the version)."""

    at: Mapping[str, tuple[Tip | None, int]]
    spans: Mapping[str, Span]
    topics: Mapping[str, Topics]


@dataclass(kw_only=True)
class Deploy:
    """One deploy of two files. Mutable: what was said already."""

    old: Pipeline
    new: Pipeline
    run: str
    now_ms: Callable[[], int]
    tell: Callable[[str], None]
    look: Callable[[Source], Topics] = look_at_once
    accepts_missing: bool = False
    _told: set[str] = field(default_factory=set)
    _begun: dict[str, ByPartition] = field(default_factory=dict)
    """Table → where its chain began: the whole log is read for it, once."""
    _looked: dict[str, int] = field(default_factory=dict)
    """Table → the version up to which the changes of others were looked for."""

    def __post_init__(self) -> None:
        wrong = [*refusals(self.old, self.new)]
        if wrong:
            raise RunError("these files cannot be deployed by rows:\n  " + "\n  ".join(wrong))
        self.ident = deploy_id(self.old, self.new)
        self.pairs = pairs_of(self.new, self.ident)
        self._plan, self._old_plan = compile_plan(self.new), compile_plan(self.old)
        self._by = Committer(ident=self.ident, run=self.run, now_ms=self.now_ms)

    # -- before anything is done ----------------------------------------------------------------

    def examine(self) -> _Seen:
        """Look at tables and topics. Raises RunError for what would lose rows, SetupError."""
        for pair in self.pairs:
            live = _live(pair)
            if wrong := why_not(live.state()):
                raise RunError(f"{pair.what}: {wrong}")
            others = [str(each.name) for each in live.reader().other_chains().values() if each]
            if others:
                raise RunError(
                    f"{pair.what}: {pair.live} has rows of {', '.join(others)}, too: a swap would "
                    "remove them"
                )
            changes = changes_of_others(live, self._looked.get(pair.live, -1))
            self._looked[pair.live] = max(live.reader().versions(), default=-1)
            if changes:
                self._once(
                    f"warning: {pair.live} has changes of rows that no run made, which the new "
                    f"table does not get: {', '.join(changes)}"
                )
        seen = self._look()
        lost = {
            name: missing_rows(self._unread(name, span), seen.topics[name].bounds())
            for name, span in seen.spans.items()
        }
        lines = [f"  source `{name}`: {line}" for name, some in lost.items() for line in some]
        if lines and not self.accepts_missing:
            raise RunError(
                "the topics do not have all records any more from which the live tables were made; "
                "the new tables would lack their rows:\n"
                + "\n".join(lines)
                + "\nnothing was done; --accept-missing deploys without them"
            )
        if lines:
            self._once("warning: without the records that the topics lost:\n" + "\n".join(lines))
            spans = {n: clamped(span, seen.topics[n].bounds()) for n, span in seen.spans.items()}
            seen = replace(seen, spans=spans)
        return seen

    def _unread(self, source: str, span: Span) -> Span:
        """The part of a span that a shadow table still lacks."""
        tips = [
            _shadow(pair).tip()[0] for pair in self.pairs if pair.sink and source in pair.sources
        ]
        read = [tip.reached.ends if tip else {} for tip in tips]
        begins = {
            p: max(at, min(each.get(p, at) for each in read)) for p, at in span.begins.items()
        }
        return Span(begins=begins, ends=span.ends)

    def _look(self) -> _Seen:
        """The live chains' positions, and the span of each source up to them."""
        at = {pair.live: _live(pair).tip() for pair in self.pairs}
        topics = {name: self.look(self.new.sources[name]) for name in self._sources()}
        spans = {}
        for name in self._sources():
            begun, ends = self._positions(name, at, topics[name])
            spans[name] = span_of(begun, ends, topics[name].bounds())
        return _Seen(at=at, spans=spans, topics=topics)

    def _sources(self) -> list[str]:
        used = dict.fromkeys(name for pair in self.pairs for name in pair.sources)
        return [*used]

    def _positions(
        self, source: str, at: Mapping[str, tuple[Tip | None, int]], topics: Topics
    ) -> tuple[ByPartition, ByPartition]:
        """(where the live tables of a source began, where they end). Raises RunError."""
        begun: dict[str, ByPartition] = {}
        ends: dict[Any, int] = {}
        for pair in self.pairs:
            tip, _ = at[pair.live]
            if pair.sink is None or source not in pair.sources or tip is None:
                continue
            if gone := recreated(tip.reached.topic_ids, topics.latest.topic_ids):
                raise RunError(
                    f"{pair.what}: topic {', '.join(gone)} was deleted and created again: the "
                    "records of the live table are gone"
                )
            begun[pair.what] = self._begun_of(pair, tip)
            if not self._is_swapped(pair):
                for p, end in tip.reached.ends.items():
                    ends[p] = max(end, ends.get(p, end))
        if not begun:
            raise RunError(
                f"no table of source `{source}` has a commit of this pipeline: there is nothing to "
                f"compare with; run {self.new.file} alone"
            )
        first: dict[Any, int] = {}
        for what, each in begun.items():
            differs = [p for p, offset in each.items() if first.setdefault(p, offset) != offset]
            if differs:
                raise RunError(
                    f"{what}: its table began at other offsets of {differs[0]} than that of a sink "
                    "before it: deploy the sinks in files of their own"
                )
        return first, ends

    def _begun_of(self, pair: Pair, tip: Tip) -> ByPartition:
        """Where a live table's rows began."""
        if pair.live not in self._begun:
            live = _live(pair)
            if live.reader().reaches_back():
                self._begun[pair.live] = begun_of(live.own())
            else:
                self._begun[pair.live] = dict.fromkeys(tip.reached.ends, 0)
                self._once(
                    f"warning: the log of {pair.live} lacks its first versions: where its rows "
                    "began is unknown, and assumed at offset 0"
                )
        return self._begun[pair.live]

    def _once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self.tell(text)

    # -- shadow tables and their rows ------------------------------------------------------------

    def catch_up(self, spark: SparkSession, reporter: Reporter) -> _Seen:
        """Run the new file into the shadow tables, up to where the live tables are now."""
        seen = self.examine()
        if not self._is_caught_up(seen):
            shadow = shadow_of(self.new, self.ident, seen.spans)
            result = run_sinks(spark, shadow, reporter, kind=_NoGroups())
            for failure in result.failures.values():
                raise RunError(f"the new file fails in its shadow tables: {failure}")
            if result.interrupted or not self._is_caught_up(seen):
                raise RunError("the shadow tables are not complete; repeat the command")
        failpoints.hit("mid_deploy", 1)
        return seen

    def _is_caught_up(self, seen: _Seen) -> bool:
        """Whether each shadow is exactly where the spans end."""
        for pair in self.pairs:
            if pair.sink is None:
                continue
            tip, _ = _shadow(pair).tip()
            wanted = self._ends(pair, seen).ends
            if tip is None or any(tip.reached.ends.get(p) != end for p, end in wanted.items()):
                return False
        return True

    def _ends(self, pair: Pair, seen: _Seen) -> TopicOffsets:
        ends = {p: end for name in pair.sources for p, end in seen.spans[name].ends.items()}
        found = [seen.topics[name].latest.topic_ids for name in pair.sources]
        return TopicOffsets(ends=ends, topic_ids={t: i for ids in found for t, i in ids.items()})

    def diffs(self, spark: SparkSession, seen: _Seen) -> Iterator[RowDiff]:
        """The difference of the rows of each sink that had a table."""
        for pair in self.pairs:
            tip, version = seen.at[pair.live]
            if pair.sink is None or tip is None or self._is_swapped(pair):
                continue
            wanted = self._ends(pair, seen).ends
            if any(tip.reached.ends.get(p, end) != end for p, end in wanted.items()):
                self._once(
                    f"note: {pair.what} is behind the other sinks of its source: rows that it gets "
                    "next count as added"
                )
            keys = target_of(pair.sink).keys()
            yield diff_rows(spark, pair.sink.name, pair.live, version, pair.shadow, keys)

    # -- swap and rollback -----------------------------------------------------------------------

    def is_done(self) -> bool:
        """Whether every table has the rows of this deploy."""
        return all(self._is_swapped(pair) for pair in self.pairs)

    def swap(self, spark: SparkSession, reporter: Reporter, seen: _Seen) -> None:
        """Swap every table, each in one commit. `seen`: what was compared."""
        since = {live: version for live, (_, version) in seen.at.items()}
        for _ in range(ROUNDS):
            left = [pair for pair in self.pairs if not self._is_swapped(pair)]
            for pair in left:
                fence(_live(pair), self._by)
            failpoints.hit("mid_deploy", 2)
            fenced = self.catch_up(spark, reporter)
            # In order: a table that cannot be swapped now leaves those after it for the next round.
            # Looked at again: in a folder of this machine Spark may overwrite another's commit.
            if all(self._swap(pair, fenced, since[pair.live]) for pair in left) and self.is_done():
                self.clean()
                return
        raise RunError(
            f"another run commits to the tables after each of {ROUNDS} fences: stop what runs "
            f"{self.old.file} and repeat the command; {self.how_to_leave()}"
        )

    def _swap(self, pair: Pair, seen: _Seen, since: int) -> bool:
        if self._is_swapped(pair):  # by the same command in another terminal
            return True
        facts: dict[str, Any] = {}
        replaced = ""
        if pair.sink is not None and pair.sink.name in self._old_plan.sinks:
            replaced = fingerprint(self._old_plan, pair.sink.name)
        if pair.sink is not None and self._plan.sinks[pair.sink.name].lettered:
            facts["dead_letters"] = self.new.dead_letters
        end = self._ends(pair, seen) if pair.sink is None else None
        want = Wanted(end=end, facts=facts, since=since, replaced=replaced)
        version = swap(_live(pair), _shadow(pair), want, self._by)
        if version is not None:
            self.tell(f"{pair.what}: swapped in version {version} of {pair.live}")
            failpoints.hit("mid_deploy", 4)
        return version is not None

    def _is_swapped(self, pair: Pair) -> bool:
        """Whether the table has the rows of this deploy, and of dead letters all of them."""
        mark = newest_step(_live(pair))
        if mark is None or mark.ident != self.ident or mark.step != SWAP:
            return False
        shadow = _shadow(pair)
        versions = shadow.reader().versions()
        # Without a shadow the deploy is over. A sink that is swapped may be continued already.
        return pair.sink is not None or not versions or versions[-1] == mark.shadow

    def take_back(self) -> int:
        """Take the swaps of this deploy back; returns how many. Without Spark. Sinks first: the old
        run finds at least the dead letters that its commits name."""
        self._refuse_lost()
        done: set[str] = set()
        # Looked at again: in a folder of this machine Spark may overwrite another's commit.
        for _ in range(ROUNDS):
            before = len(done)
            for pair in reversed(self.pairs):
                done |= {pair.live} if self._take_back(pair) else set()
            if len(done) == before:
                break
        return len(done)

    def _take_back(self, pair: Pair) -> bool:
        replaced = fingerprint(self._plan, pair.sink.name) if pair.sink else ""
        version = rollback(_live(pair), replaced, self._by)
        failpoints.hit("mid_deploy", 5)
        if version is not None:
            self.tell(f"{pair.what}: taken back in version {version} of {pair.live}")
        return version is not None

    def _refuse_lost(self) -> None:
        """Raise RunError if the topics lack records that the old pipeline would read next."""
        for pair in self.pairs:
            mark = newest_step(_live(pair), reads_back=True)
            if pair.sink is None or mark is None or mark.step != SWAP or mark.before < 0:
                continue
            tip, _ = _live(pair).tip(mark.before)
            for name in pair.sources:
                try:
                    bounds = self.look(self.new.sources[name]).bounds()
                except SetupError as error:
                    self._once(f"warning: {error}: whether all records are there is unknown")
                    continue
                ends = {p: end for p, end in (tip.reached.ends if tip else {}).items()
                        if p in bounds}  # fmt: skip
                last = {p: max(end, bounds[p].latest) for p, end in ends.items()}
                lines = missing_rows(Span(begins=ends, ends=last), bounds)
                if lines and not self.accepts_missing:
                    raise RunError(
                        "the topics lack records that came after the swap, which the old file "
                        "would read next:\n  " + "\n  ".join(lines)
                        + "\nnothing was done; --accept-missing takes the deploy back without them"
                    )  # fmt: skip

    def abort(self) -> None:
        """Remove the shadow tables. Raises RunError if some tables are swapped already."""
        swapped = [pair.what for pair in self.pairs if self._has_shadow_swap(pair)]
        if swapped and any(_shadow(pair).reader().versions() for pair in self.pairs):
            raise RunError(
                f"swapped already: {', '.join(swapped)}; --swap swaps the others, --rollback takes "
                "these back, after which --abort removes the shadow tables"
            )
        self.clean()

    def _has_shadow_swap(self, pair: Pair) -> bool:
        mark = newest_step(_live(pair))
        return mark is not None and mark.ident == self.ident and mark.step == SWAP

    def clean(self) -> None:
        """Remove what the shadow run has left."""
        for pair in self.pairs:
            for path in (pair.shadow, f"{pair.shadow}_lost"):
                with suppress(FileNotFoundError):
                    shutil.rmtree(path)
        with suppress(FileNotFoundError, PipelineError):
            shutil.rmtree(Path(checkpoint_path(self.new, self.ident).removeprefix("file://")))

    def how_to_leave(self) -> str:
        """The command that removes the shadow tables."""
        return f"`{self.command('--abort')}` removes the shadow tables"

    def command(self, option: str) -> str:
        """The command line of this deploy with another option."""
        return (
            f"josefine pipeline deploy {self.new.as_arguments} --against {self.old.file} {option}"
        )


def _live(pair: Pair) -> TableLog:
    return TableLog(pair.live, pair.name)


def _shadow(pair: Pair) -> TableLog:
    return TableLog(pair.shadow, pair.name)
