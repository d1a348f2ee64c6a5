"""Of every file that a broker leaves on its log disk is said what its damage may cause."""

from tests.simulation.cluster.faults import CALM
from tests.simulation.cluster.file_kinds import KINDS, kind_of
from tests.simulation.cluster.run import simulate

LOG = ".log"


def test_each_file_of_a_life_is_a_log_or_of_one_kind() -> None:
    world = simulate(1, for_ms=6_000, faults=CALM)
    for broker_id in world.broker_ids:
        process = world.machines[broker_id].process
        assert process is not None
        world.stopped(process)
    paths = [path for each in world.machines.values() for path in each.disk.files.names]

    assert {path for path in paths if kind_of(path) is None and not path.endswith(LOG)} == set()
    for path in paths:
        assert sum(path.endswith(kind.endings) for kind in KINDS) + path.endswith(LOG) == 1
