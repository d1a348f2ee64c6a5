"""pytest-xdist's side of tests/sharing.py: units instead of files, in the order given there."""

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.sharing import next_unit, unit_of


class Scheduler(LoadScopeScheduling):
    """Gives units to processes."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        is_last = len(self.nodes) > 1 and node is self.nodes[-1]
        unit = next_unit(self.workqueue, of_last_process=is_last)
        self.workqueue.move_to_end(unit, last=False)
        super()._assign_work_unit(node)
