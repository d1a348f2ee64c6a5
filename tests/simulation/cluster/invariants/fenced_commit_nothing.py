"""14. Who is no member of a group's last generation commits nothing: not one of an earlier one, not
one that was lost, not a static member's former process. By the order of the offsets topic: in
front of an offset lies the group as its member knew it, or the member of the consumer protocol in
its epoch."""

from tests.simulation.cluster.group_facts import Written
from tests.simulation.cluster.invariants.base import Invariant

__all__ = ["FencedCommitNothing"]


class FencedCommitNothing(Invariant):
    def group_written(self, written: Written) -> None:
        commit = written.commit
        if commit is None:
            before = self.view.groups.records.get(written.group)
            record = written.record
            assert record is not None
            assert before is None or before.generation <= record.generation, (
                f"group {written.group}: generation {record.generation} behind {before.generation}"
            )
            return
        consumers = self.view.groups.consumers(written.group)
        if consumers is not None:
            member = consumers.members.get(commit.member_id)
            assert member is not None, f"{commit} is of none of {list(consumers.members)}"
            assert member.epoch == commit.generation, f"{commit} lies behind epoch {member.epoch}"
            return
        record = self.view.groups.records.get(written.group)
        assert record is not None, f"{commit} lies in front of its group"
        assert record.generation == commit.generation, (
            f"{commit} lies behind generation {record.generation}"
        )
        assert commit.member_id in {each.member_id for each in record.members}, (
            f"{commit} is of none of the members {[each.member_id for each in record.members]}"
        )
