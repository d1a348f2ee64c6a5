"""4. A leader epoch has one leader, in the metadata and in fact; a partition epoch one meaning."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.changes import At, Change, SetFeatures
from josefine_broker.engine.metadata.image import MetadataImage, PartitionEntry
from tests.simulation.cluster.invariants.base import Invariant, Sight
from tests.simulation.cluster.view import Key, View

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["OneLeaderPerEpoch"]


class OneLeaderPerEpoch(Invariant):
    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._named: dict[tuple[Key, int], int] = {}
        self._leading: dict[tuple[Key, int], str] = {}
        self._entries: dict[Key, PartitionEntry] = {}

    def decided(self, before: MetadataImage, change: Change | None, at: At) -> None:
        for facts, _, entry in self.view.entries():
            last = self._entries.get(facts.key)
            if last is entry:
                continue
            self._entries[facts.key] = entry
            named = self._named.setdefault((facts.key, entry.leader_epoch), entry.leader)
            assert named == entry.leader, (
                f"{facts.name}: leader epoch {entry.leader_epoch} is of broker {named} "
                f"and of broker {entry.leader}"
            )
            if last is None or last == entry:
                continue
            if isinstance(change, SetFeatures):  # level 2 adds a field, and no decision
                last = replace(last, unclean_epoch=entry.unclean_epoch)
                assert last == entry, f"{facts.name}: {last}, {entry}"
                continue
            assert entry.partition_epoch > last.partition_epoch, f"{facts.name}: {last}, {entry}"
            assert entry.leader_epoch >= last.leader_epoch, f"{facts.name}: {last}, {entry}"

    def moved(
        self, process: Process, tp: TopicPartition, sight: Sight, before: Sight | None
    ) -> None:
        if not sight.is_leader:
            return
        key = (sight.hosted.topic_id, tp.partition), sight.leader_epoch
        me = process.ctx.cluster.incarnation
        leading = self._leading.setdefault(key, me)
        assert leading == me, (
            f"{tp}: {leading} and {me} both led in leader epoch {sight.leader_epoch}"
        )
