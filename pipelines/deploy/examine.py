"""The live tables and topics of a deploy: what is refused before anything is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from josefine_spark.base.topic_offsets import ByPartition, TopicOffsets
from pipelines.base.errors import RunError, SetupError
from pipelines.deploy.shadow import (
    Pair,
    Span,
    begun_of,
    clamped,
    missing_rows,
    recreated,
    span_of,
)
from pipelines.deploy.swap import changes_of_others, newest_step
from pipelines.deploy.table_actions import constraints_beyond, why_not
from pipelines.deploy.table_log import TableLog
from pipelines.exactly_once.deployed import PREPARE, SWAP
from pipelines.exactly_once.offset_chain import Tip
from pipelines.model.pipeline import Pipeline, Source
from pipelines.sources.josefine import Topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The live tables at one moment. `at`: table → (the chain's end, the version)."""

    at: Mapping[str, tuple[Tip | None, int]]
    spans: Mapping[str, Span]
    topics: Mapping[str, Topics]

    def ends_of(self, pair: Pair) -> TopicOffsets:
        """Where the shadow of a table ends."""
        ends = {p: end for name in pair.sources for p, end in self.spans[name].ends.items()}
        found = [self.topics[name].latest.topic_ids for name in pair.sources]
        return TopicOffsets(ends=ends, topic_ids={t: i for ids in found for t, i in ids.items()})


def live_of(pair: Pair) -> TableLog:
    """The log of the live table."""
    return TableLog(pair.live, pair.name)


def shadow_of_pair(pair: Pair) -> TableLog:
    """The log of its shadow."""
    return TableLog(pair.shadow, pair.name)


def has_swap(pair: Pair, ident: str) -> bool:
    """Whether the newest step in the live table is the swap of this deploy."""
    mark = newest_step(live_of(pair))
    return mark is not None and mark.ident == ident and mark.step == SWAP


def has_begun(pair: Pair, ident: str) -> bool:
    """Whether the table is swapped by this deploy, or prepared for it."""
    mark = newest_step(live_of(pair))
    return mark is not None and mark.ident == ident and mark.step in (SWAP, PREPARE)


def is_swapped(pair: Pair, ident: str) -> bool:
    """Whether the table has the rows of this deploy, and of dead letters all of them."""
    if not has_swap(pair, ident):
        return False
    mark = newest_step(live_of(pair))
    versions = shadow_of_pair(pair).reader().versions()
    # Without a shadow the deploy is over. A sink that is swapped may be continued already.
    return (
        pair.sink is not None or not versions or (mark is not None and versions[-1] == mark.shadow)
    )


class Examiner:
    """Looks at the tables of a deploy. Mutable: what was looked up and reported already."""

    def __init__(
        self,
        new: Pipeline,
        pairs: list[Pair],
        ident: str,
        look: Callable[[Source], Topics],
        tell: Callable[[str], None],
        *,
        accepts_missing: bool,
    ) -> None:
        self._new = new
        self._pairs = pairs
        self._ident = ident
        self._look_at = look
        self._tell = tell
        self._accepts_missing = accepts_missing
        self._told: set[str] = set()
        self._begun: dict[str, ByPartition] = {}
        """Table → where its chain began: the whole log is read for it, once."""
        self._looked: dict[str, int] = {}
        """Table → the version up to which the changes of others were looked for."""

    def examine(self) -> Seen:
        """Look at tables and topics. Raises RunError for what would lose rows, SetupError."""
        for pair in self._pairs:
            self._examine_table(pair)
        seen = self._look()
        lost = {
            name: missing_rows(self._unread(name, span), seen.topics[name].bounds())
            for name, span in seen.spans.items()
        }
        lines = [f"  source `{name}`: {line}" for name, some in lost.items() for line in some]
        if lines and not self._accepts_missing:
            raise RunError(
                "the topics do not have all records any more from which the live tables were made; "
                "the new tables would lack their rows:\n"
                + "\n".join(lines)
                + "\nnothing was done; --accept-missing deploys without them"
            )
        if lines:
            self.once("warning: without the records that the topics lost:\n" + "\n".join(lines))
            spans = {n: clamped(span, seen.topics[n].bounds()) for n, span in seen.spans.items()}
            seen = replace(seen, spans=spans)
        return seen

    def _examine_table(self, pair: Pair) -> None:
        """Raise RunError for a table that a swap would damage; report changes by hand."""
        live = live_of(pair)
        state = live.state()
        if wrong := why_not(state):
            raise RunError(f"{pair.what}: {wrong}")
        own = pair.sink.constraints if pair.sink else {}
        if lost := constraints_beyond(state, own):
            self.once(
                f"warning: the swap removes constraints of {pair.live} that the new file does not "
                f"have, because its rows were not checked: {', '.join(lost)}; add them to "
                "`constraints` of the sink"
            )
        others = [str(each.name) for each in live.reader().other_chains().values() if each]
        if others:
            raise RunError(
                f"{pair.what}: {pair.live} has rows of {', '.join(others)}, too: a swap would "
                "remove them"
            )
        changes = changes_of_others(live, self._looked.get(pair.live, -1))
        self._looked[pair.live] = max(live.reader().versions(), default=-1)
        if changes:
            self.once(
                f"warning: {pair.live} has changes of rows that no run made, which the new "
                f"table does not get: {', '.join(changes)}"
            )

    def _unread(self, source: str, span: Span) -> Span:
        """The part of a span that a shadow table still lacks."""
        tips = [
            shadow_of_pair(pair).tip()[0]
            for pair in self._pairs
            if pair.sink and source in pair.sources
        ]
        read = [tip.reached.ends if tip else {} for tip in tips]
        begins = {
            p: max(at, min(each.get(p, at) for each in read)) for p, at in span.begins.items()
        }
        return Span(begins=begins, ends=span.ends)

    def _look(self) -> Seen:
        """The live chains' positions, and the span of each source up to them."""
        at = {pair.live: live_of(pair).tip() for pair in self._pairs}
        topics = {name: self._look_at(self._new.sources[name]) for name in self._sources()}
        spans = {}
        for name in self._sources():
            begun, ends = self._positions(name, at, topics[name])
            spans[name] = span_of(begun, ends, topics[name].bounds())
        return Seen(at=at, spans=spans, topics=topics)

    def _sources(self) -> list[str]:
        used = dict.fromkeys(name for pair in self._pairs for name in pair.sources)
        return [*used]

    def _positions(
        self, source: str, at: Mapping[str, tuple[Tip | None, int]], topics: Topics
    ) -> tuple[ByPartition, ByPartition]:
        """(where the live tables of a source began, where they end). Raises RunError."""
        begun: dict[str, ByPartition] = {}
        # A table that is swapped already may be ahead: the new file may run.
        ends: dict[Any, int] = {}
        for pair in self._pairs:
            tip, _ = at[pair.live]
            if pair.sink is None or source not in pair.sources or tip is None:
                continue
            if gone := recreated(tip.reached.topic_ids, topics.latest.topic_ids):
                raise RunError(
                    f"{pair.what}: topic {', '.join(gone)} was deleted and created again: the "
                    "records of the live table are gone"
                )
            begun[pair.what] = self._begun_of(pair, tip)
            # A shadow is ahead of its table if the sinks were at different offsets, and the one
            # that was ahead is swapped already: all shadows were filled to its end.
            shadow, _ = shadow_of_pair(pair).tip()
            if not is_swapped(pair, self._ident):
                for of in (tip, shadow):
                    for p, end in (of.reached.ends if of else {}).items():
                        ends[p] = max(end, ends.get(p, end))
        if not begun:
            raise RunError(
                f"no table of source `{source}` has a commit of this pipeline: there is nothing to "
                f"compare with; run {self._new.file} alone"
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
            live = live_of(pair)
            if live.reader().reaches_back():
                self._begun[pair.live] = begun_of(live.own())
            else:
                self._begun[pair.live] = dict.fromkeys(tip.reached.ends, 0)
                self.once(
                    f"warning: the log of {pair.live} lacks its first versions: where its rows "
                    "began is unknown, and assumed at offset 0"
                )
        return self._begun[pair.live]

    def once(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._tell(text)

    def refuse_lost(self) -> None:
        """Raise RunError if the topics lack records that the old pipeline would read next."""
        for pair in self._pairs:
            mark = newest_step(live_of(pair), reads_back=True)
            if (
                pair.sink is None
                or mark is None
                or mark.step not in (SWAP, PREPARE)
                or mark.before < 0
            ):
                continue
            tip, _ = live_of(pair).tip(mark.before)
            for name in pair.sources:
                try:
                    bounds = self._look_at(self._new.sources[name]).bounds()
                except SetupError as error:
                    self.once(f"warning: {error}: whether all records are there is unknown")
                    continue
                ends = {p: end for p, end in (tip.reached.ends if tip else {}).items()
                        if p in bounds}  # fmt: skip
                last = {p: max(end, bounds[p].latest) for p, end in ends.items()}
                lines = missing_rows(Span(begins=ends, ends=last), bounds)
                if lines and not self._accepts_missing:
                    raise RunError(
                        "the topics lack records that came after the swap, which the old file "
                        "would read next:\n  " + "\n  ".join(lines)
                        + "\nnothing was done; --accept-missing takes the deploy back without them"
                    )  # fmt: skip
