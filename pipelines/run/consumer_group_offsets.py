"""Offset commits to consumer groups: progress for lag tools, never read back by the pipeline.

Only committed offsets are reported. A group that a source names (`commit_group`) gets the lowest
end offset of all sinks of that source, and no partition before each sink has reported it. So a
consumer that starts at the group's offsets misses no record of any table. A failed offset commit
stops nothing; if the file names the group, each reason is reported once.
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
    """The offset commits of one start of a run. Mutable: the offsets of each sink. Streams call it
    from their threads."""

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
        self._reported: set[tuple[str, str]] = set()

    def stands(self, sink: SinkPlan, ends: ByPartition, there: Container[TopicPartition]) -> None:
        """The offsets at which a sink continues; partitions that are not `there` are left out."""
        self._at[sink.name] = ends
        self._gone |= {partition for partition in ends if partition not in there}

    def reached(self, sink: SinkPlan, ends: ByPartition) -> None:
        """Commit group offsets after a sink's commit. Under the lock: two sinks' commits in the
        wrong order would move a group back."""
        sources = sink.sources
        with self._lock:
            self._at[sink.name] = ends
            for source in sources:
                if source.commit_group is not None:
                    sinks = self._plan.sources[source.name].sinks
                    at = [self._at.get(name, {}) for name in sinks]
                    # Only a source whose topics are in the file can have a group next to others.
                    theirs = common(at) if len(sources) == 1 else _of(source, common(at))
                    self._report(source, source.commit_group, theirs)
            others = [source for source in sources if source.commit_group is None]
            if others and len({source.bootstrap for source in others}) == 1:
                named = [source for source in sources if source.commit_group is not None]
                gone = {topic for source in named for topic in source.topics}
                left = {p: end for p, end in ends.items() if p[0] not in gone}
                self._report(others[0], sink.groups[others[0].name], left)

    def _report(self, source: Source, group: str, ends: ByPartition) -> None:
        due = {p: end for p, end in ends.items() if p not in self._gone}
        wrong = self._commit(source, group, due) if due else ""
        if not wrong:
            return
        log.info("group offsets not committed", extra={"group": group, "error": wrong})
        if source.commit_group is not None and (group, wrong) not in self._reported:
            self._reported.add((group, wrong))
            self._on_failed(source.name, f"group {group}: offsets not committed: {wrong}")


def _of(source: Source, ends: ByPartition) -> ByPartition:
    return {p: end for p, end in ends.items() if p[0] in source.topics}


def common(sinks: Iterable[ByPartition]) -> dict[TopicPartition, int]:
    """The offsets that all sinks have reached: the lowest end of each partition that none lacks."""
    first, *others = sinks
    return {
        p: min(end, *(each[p] for each in others)) if others else end
        for p, end in first.items()
        if all(p in each for each in others)
    }
