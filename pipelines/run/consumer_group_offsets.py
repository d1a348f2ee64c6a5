"""What consumer groups are told of how far a pipeline is: advice for lag tools, never the truth.

Rules: only what is in a table is told; a group that a source names (`commit_group`) is told what
all sinks of that source have, and nothing of a partition before each of them has said where it is,
so who begins where the group is misses no record of any table. A group that does not take it stops
nothing: that is told once for each reason, where the file names the group.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Container, Iterable

from josefine_broker.base.ids import TopicPartition
from josefine_spark.base.topic_offsets import ByPartition
from pipelines.model.pipeline import Source
from pipelines.model.plan import PipelinePlan, SinkPlan

log = logging.getLogger("josefine.pipelines")


class Advice:
    """Of one start of a run. Mutable: where each sink is. Streams call it from their threads."""

    def __init__(
        self,
        plan: PipelinePlan,
        commit: Callable[[Source, str, ByPartition], str],
        on_failed: Callable[[str, str], None],
    ) -> None:
        self._plan = plan
        self._commit = commit
        self._on_failed = on_failed
        self._lock = threading.Lock()
        self._at: dict[str, ByPartition] = {}
        self._gone: set[TopicPartition] = set()
        self._said: set[tuple[str, str]] = set()

    def stands(self, sink: SinkPlan, ends: ByPartition, there: Container[TopicPartition]) -> None:
        """Where a sink goes on; partitions that are not `there` any more are not told."""
        self._at[sink.name] = ends
        self._gone |= {partition for partition in ends if partition not in there}

    def reached(self, sink: SinkPlan, ends: ByPartition) -> None:
        """A sink's commit is done. Groups are told one after the other: none may be moved back."""
        sources = sink.sources
        with self._lock:
            self._at[sink.name] = ends
            for source in sources:
                if source.commit_group is not None:
                    sinks = self._plan.sources[source.name].sinks
                    at = [self._at.get(name, {}) for name in sinks]
                    # Of several sources only those have a group whose topics are in the file.
                    theirs = common(at) if len(sources) == 1 else _of(source, common(at))
                    self._tell(source, source.commit_group, theirs)
            others = [source for source in sources if source.commit_group is None]
            if others and len({source.bootstrap for source in others}) == 1:
                named = [source for source in sources if source.commit_group is not None]
                gone = {topic for source in named for topic in source.topics}
                left = {p: end for p, end in ends.items() if p[0] not in gone}
                self._tell(others[0], sink.groups[others[0].name], left)

    def _tell(self, source: Source, group: str, ends: ByPartition) -> None:
        due = {p: end for p, end in ends.items() if p not in self._gone}
        wrong = self._commit(source, group, due) if due else ""
        if not wrong:
            return
        log.info("group offsets not committed", extra={"group": group, "error": wrong})
        if source.commit_group is not None and (group, wrong) not in self._said:
            self._said.add((group, wrong))
            self._on_failed(source.name, f"group {group} is not told how far it is: {wrong}")


def _of(source: Source, ends: ByPartition) -> ByPartition:
    return {p: end for p, end in ends.items() if p[0] in source.topics}


def common(sinks: Iterable[ByPartition]) -> dict[TopicPartition, int]:
    """What all of them have: the least end of each partition that none lacks."""
    first, *others = sinks
    return {
        p: min(end, *(each[p] for each in others)) if others else end
        for p, end in first.items()
        if all(p in each for each in others)
    }
