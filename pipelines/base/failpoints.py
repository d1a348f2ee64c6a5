"""Failpoints: places where a kill test can make a run die; users can use them too.

`JOSEFINE_FAIL=NAME[:INDEX][@HIT]` kills the driver and its JVM with SIGKILL the HIT-th time (first
by default) that the place is reached: nothing is flushed, no handler runs, as in a power cut.
If unset, a place costs one comparison with None.

| name | the moment |
|---|---|
| `after_offsets` | Spark has planned the batch (`offsets/N` is written), nothing is done yet |
| `before_commit` | the batch is decided on, no file is written |
| `mid_write` | data files lie in the table's folder, no log entry names them (topic: planned) |
| `mid_commit:N` | after the batch's N-th commit (1: the dead letters, 2: the sink's own) |
| `mid_tables:N` | N tables of a `path` such as `lake/{topic}` have the batch, the others not; 0: |
| | files are written, no table has them |
| `mid_direct:N` | the batch's files are written (1), are in the table's folder (2); no commit |
| | names them (a Delta table that gets direct appends) |
| `after_commit_before_log` | every table is committed, Spark's `commits/N` is not written |
| `after_upkeep` | an `optimize` or `vacuum` is done, Spark's `commits/N` is not written |
| `mid_loss:1` | the lost range is recorded, no chain has skipped it |
| `mid_loss:2` | the table has the offsets of the checkpoint, which will be set aside |
| `mid_loss:3` | the dead-letter chain has skipped the lost range, the sink's chain has not |
| `mid_start:N` | a Delta stream's `start` is looked up (1), is committed (2); no query runs yet |
| `mid_replay:N` | `dlq replay`: the dead letters are recorded (0), the N-th sink has its rows |
| `mid_deploy:N` | shadow caught up (1), fenced (2), files linked (3), swapped (4), back (5, 6) |
| `after_set_aside` | `--trust table` has renamed the checkpoint, no query runs yet |

`fail_write` does not kill the driver: the Python workers of a write's tasks die once, as with a
lost executor; the run is expected to recover.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from josefine_broker.base.failpoints import Failpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NAMES = (
    "after_offsets",
    "before_commit",
    "mid_write",
    "mid_commit",
    "mid_tables",
    "mid_direct",
    "after_commit_before_log",
    "after_upkeep",
    "after_set_aside",
    "mid_loss",
    "mid_start",
    "mid_replay",
    "mid_deploy",
    "fail_write",
)


_armed: Failpoint | None = None
_thread = threading.local()
_jvm_pid: int | None = None


def arm(text: str | None, jvm_pid: int | None) -> None:
    """Arm the place that JOSEFINE_FAIL names; None disarms. `jvm_pid` is killed too."""
    global _armed, _jvm_pid
    _armed = Failpoint(text, NAMES) if text else None
    _jvm_pid = jvm_pid


def hit(name: str, index: int | None = None) -> None:
    """Kill the process if this place is armed."""
    if _armed is not None and _armed.reached(name, index):
        die()


def due(name: str) -> bool:
    """Whether to die at a place that needs preparation (`mid_write` leaves files)."""
    if _armed is None or getattr(_thread, "passes", False):
        return False
    return _armed.reached(name, None)


@contextmanager
def passed_over() -> Iterator[None]:
    """In this thread the places that `due` asks for are not reached: a dry write is no write."""
    _thread.passes = True
    try:
        yield
    finally:
        _thread.passes = False


def disturbed(frame: DataFrame) -> DataFrame:
    """The frame, or one whose Python workers die if this write is armed to fail."""
    return frame.mapInArrow(_worker_dies, frame.schema) if due("fail_write") else frame


def _worker_dies(batches: Iterable[Any]) -> NoReturn:
    os._exit(1)


def die() -> None:
    """Kill the JVM first: it would outlive the driver and might finish a commit."""
    if _jvm_pid is not None:
        os.kill(_jvm_pid, signal.SIGKILL)
    os._exit(137)
