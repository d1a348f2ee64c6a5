"""Puts what a Python process of Spark has loaded where no garbage collection looks.

PySpark's processes collect after every task and every question of a plan, and modules stay for
ever: a collection walks through 60,000 objects of a planner, 35 ms of processor time, and a batch
read asks two planners.
"""

import gc
import sys
from functools import cache

DAEMON = "pyspark.daemon"
"""What Spark starts; its children serve task after task, or one question after the other."""


@cache
def freeze_loaded() -> None:
    """Once per process, when all is loaded that its work needs; elsewhere than below Spark's daemon
    nothing is done. Nothing is collected first: that would cost what is to be saved."""
    if _below_daemon():
        gc.freeze()


def _below_daemon() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == DAEMON
