"""The reason of a sink's last failure, in a file next to its checkpoint, for `pipeline status`.

The file is removed when the sink starts again. It is for checkpoints on this machine and best
effort: the exit of the run reports the same reason.
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
    """A failure. `at_ms`: its time, since 1970."""

    reason: str
    at_ms: int


def note(pipeline: Pipeline, sink: str, reason: str, now_ms: int) -> None:
    """Store a reason, which must have no secrets. Nothing is stored without a local checkpoint
    folder: it is on another machine."""
    file = _file(pipeline, sink)
    if file is not None:
        with contextlib.suppress(OSError):
            file.write_text(json.dumps({"reason": reason, "at_ms": now_ms}), encoding="utf-8")


def forget(pipeline: Pipeline, sink: str) -> None:
    """Remove the note: the sink starts again."""
    file = _file(pipeline, sink)
    if file is not None:
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def noted(pipeline: Pipeline, sink: str) -> FailureNote | None:
    """The note; None if the sink has not failed or the note cannot be read."""
    file = _file(pipeline, sink)
    if file is None:
        return None
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
        return FailureNote(reason=str(said["reason"]), at_ms=int(said["at_ms"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _file(pipeline: Pipeline, sink: str) -> Path | None:
    """The note's path. No sink has a dot in its name, so it cannot be another checkpoint."""
    folder = local_folder(pipeline.checkpoint_of(sink))
    return None if folder is None else Path(f"{folder}.failed")
