"""20. No two members of a group of the consumer protocol have one partition at any moment, by what
they were told and have given up (KIP-848). A member that is not answered in time has nothing; nor
has one that only a former coordinator answers: a broker that is cut off from the metadata does not
know yet that another one leads, and answers heartbeats and syncs from what was committed, as
Kafka's coordinators do. Such a member can commit nothing (`fenced_commit_nothing.py`)."""

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
