"""Who takes part in Raft, as the registered brokers would have it: one step at a time.

Rules: a registered broker becomes a learner, and a voter once it has caught up and is heard, up to
`voters_max`; the others stay learners (observers). Voters are added in pairs to an odd number: two
voters bear no more losses than one, and stop when either is gone. Only a broker that was removed by
command leaves; a voter that never registered is awaited.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from josefine_broker.engine.metadata.image import MetadataImage


class MemberStep(Enum):
    """What happens to one member."""

    ADD_LEARNER = "add learner"  # receives blocks
    PROMOTE = "promote"  # votes, from learner to voter
    REMOVE = "remove"  # neither


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberChange:
    """One step for one broker."""

    step: MemberStep
    broker_id: int


def next_member_change(
    image: MetadataImage,
    voters: Collection[int],
    learners: Collection[int],
    caught_up: Collection[int],
    *,
    voters_max: int,
) -> MemberChange | None:
    """The next step; None: all is as it should be. `caught_up` are learners near the head."""
    members = {*voters, *learners}
    for broker_id in sorted(image.unregistered & members):
        if set(voters) != {broker_id}:
            return MemberChange(step=MemberStep.REMOVE, broker_id=broker_id)
    for broker_id in sorted(image.brokers):
        if broker_id not in members:
            return MemberChange(step=MemberStep.ADD_LEARNER, broker_id=broker_id)
    ready = sorted(image.live_brokers().intersection(learners, caught_up))
    room = voters_max - len(voters)
    needed = 1 if len(voters) % 2 == 0 else 2
    if len(ready) >= needed and room >= needed:
        return MemberChange(step=MemberStep.PROMOTE, broker_id=ready[0])
    return None


def why_not_removed(image: MetadataImage, voters: Collection[int], broker_id: int) -> str:
    """Why the vote of this broker, which lost its data, cannot be taken away now; empty: it can.

    The others must be able to decide without it, for the change is a block that they commit.
    """
    live = image.live_brokers()
    if broker_id in live:
        return f"broker {broker_id} serves, so it has its data: stop it first if they are lost"
    rest = sorted({*voters} - {broker_id})
    if not rest:
        return f"broker {broker_id} is the only voter: nobody can decide without it"
    there = [each for each in rest if each in live]
    if 2 * len(there) <= len(rest):
        away = ", ".join(str(each) for each in rest if each not in live)
        return f"a majority of the voters that stay must be there: start broker {away} first"
    return ""
