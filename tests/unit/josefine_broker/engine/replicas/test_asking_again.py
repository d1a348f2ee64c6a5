"""A leader in doubt that loses its leadership before it has asked the other replicas."""

from josefine_broker.engine.partition.catch_up import RETRY_MS
from josefine_broker.engine.partition.replica_role import ReplicaState
from tests.unit.josefine_broker.engine.replicas.test_catching_up import VALUES, Doubted


def test_leader_that_was_fenced_before_it_had_asked_asks_when_it_leads_again() -> None:
    """The second election finds no doubt in the image. It led without committed records."""
    cluster = Doubted(ends_in_damage=True)
    cluster.silent = {1, 3}
    cluster.lead(2, isr=(2,))
    cluster.go()
    for is_fenced in (True, False):
        cluster.fence(2, fenced=is_fenced)
        assert cluster.hosted(2).ends_in_damage
    assert cluster.entry().unclean_epoch < cluster.entry().leader_epoch
    assert cluster.state() is ReplicaState.CATCHING_UP
    cluster.silent = set()
    cluster.go(after_ms=RETRY_MS)
    assert cluster.values(2) == VALUES
    for leader in (2, 1):
        cluster.lead(leader, isr=(1, 2))
        assert cluster.hosted(leader).partition.is_leader, "in sync with another it need not ask"
