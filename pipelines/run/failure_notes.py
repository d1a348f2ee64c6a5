"""Why a sink failed for good, kept beside its checkpoint for `status` until it begins again.

On this machine only, and as well as the disk takes it: the run's own exit says the same.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass
from pathlib import Path

from pipelines.config.output_paths import local_folder
from pipelines.model.pipeline import Pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureNote:
    """`at_ms` since 1970."""

    reason: str
    at_ms: int


def note(pipeline: Pipeline, sink: str, reason: str, now_ms: int) -> None:
    """Keep a reason, which must have no secrets. A checkpoint that is not there gets none: it is
    another machine's."""
    file = _file(pipeline, sink)
    if file is not None:
        with contextlib.suppress(OSError):
            file.write_text(json.dumps({"reason": reason, "at_ms": now_ms}), encoding="utf-8")


def forget(pipeline: Pipeline, sink: str) -> None:
    """It begins again."""
    file = _file(pipeline, sink)
    if file is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def noted(pipeline: Pipeline, sink: str) -> FailureNote | None:
    """None where it has not failed, and where nobody can read it."""
    file = _file(pipeline, sink)
    if file is None:
        return None
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return FailureNote(reason=str(said["reason"]), at_ms=int(said["at_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(pipeline: Pipeline, sink: str) -> Path | None:
    """A dot is in no name, so it is nobody's checkpoint."""
    folder = local_folder(pipeline.checkpoint_of(sink))
    return None if folder is None else Path(f"{folder}.failed")
