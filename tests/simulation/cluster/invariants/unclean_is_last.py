"""10. Who may lack committed records is elected only where that is allowed, and nobody who has them
all is there."""

from josefine_broker.engine.metadata.changes import At, Change
from josefine_broker.engine.metadata.image import MetadataImage
from tests.simulation.cluster.invariants.base import Invariant
from tests.simulation.cluster.unclean import believed, was_unclean


class UncleanIsLast(Invariant):
    def decided(self, before: MetadataImage, change: Change | None, at: At) -> None:
        for facts, name, entry in self.view.entries():
            old = before.partition(name, facts.key[1])
            if old is None or old is entry or not was_unclean(old, entry, before, facts.opened):
                continue
            assert facts.losses.is_allowed, (
                f"{facts.name}: broker {entry.leader} leads by an unclean election, "
                f"which nobody has allowed: {old}"
            )
            live = [each for each in believed(old, before) if self.view.image.is_live(each)]
            assert not live, (
                f"{facts.name}: broker {entry.leader} leads by an unclean election, while {live} "
                f"live, and have everything: {old}"
            )
