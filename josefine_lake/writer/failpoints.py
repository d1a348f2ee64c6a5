"""Failpoints of the table writer: `JOSEFINE_FAIL=NAME[@HIT]` kills it there with SIGKILL.

| name | the moment |
|---|---|
| `before_files` | records are read, their file is not closed |
| `before_dead_letters` | all files are closed, no commit names one |
| `after_dead_letters` | the dead letters are committed, the rows are not |
| `before_commit` | the log entry of the rows is written next |
| `after_commit` | the rows are committed, the group's offsets are not |
"""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping

from josefine_broker.base.failpoints import VARIABLE, Failpoint

NAMES = (
    "before_files",
    "before_dead_letters",
    "after_dead_letters",
    "before_commit",
    "after_commit",
)

_armed: list[Failpoint] = []


def arm(env: Mapping[str, str]) -> None:
    """Arm the place that the environment names. Raises ValueError."""
    _armed[:] = [Failpoint(env[VARIABLE], NAMES, has_index=False)] if env.get(VARIABLE) else []


def hit(name: str) -> None:
    """Kill the process if this place is armed."""
    if _armed and _armed[0].reached(name):
        os.kill(os.getpid(), signal.SIGKILL)
