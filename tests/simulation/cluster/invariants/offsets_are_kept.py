"""13. What a group committed stays: an offset that was acknowledged is committed in the offsets
topic, and who asks its coordinator is told the last one that is, or a later one."""

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.group_facts import Commit
from tests.simulation.cluster.invariants.base import Invariant

__all__ = ["OffsetsAreKept"]


class OffsetsAreKept(Invariant):
    def offset_acknowledged(self, commit: Commit) -> None:
        assert self.view.groups.position((commit.group, commit.tp), commit.token), (
            f"{commit} was acknowledged, and is not committed"
        )

    def offset_told(self, group: str, tp: TopicPartition, token: str, known: int) -> None:
        facts, place = self.view.groups, (group, tp)
        found = facts.position(place, token)
        assert found or not token, f"group {group}: told {token} for {tp}, which is not committed"
        acknowledged = facts.acknowledged.get(place, 0)
        assert found >= known, (
            f"group {group}: for {tp} its coordinator told commit {found} of {known}, "
            f"of which {acknowledged} were acknowledged"
        )
