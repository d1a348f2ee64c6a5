"""20. No two members of a group of the consumer protocol have one partition at any moment, by what
they were told and have given up (KIP-848). A member that is not answered in time has nothing."""

from josefine_broker.base.ids import TopicPartition
from tests.simulation.cluster.invariants.base import Invariant

__all__ = ["HoldersAreSingle"]


class HoldersAreSingle(Invariant):
    def held(self, group: str, held: dict[str, set[TopicPartition]]) -> None:
        holder: dict[TopicPartition, str] = {}
        for member, tps in held.items():
            for tp in sorted(tps):
                other = holder.setdefault(tp, member)
                assert other == member, f"group {group}: {tp} is had by {other} and by {member}"
