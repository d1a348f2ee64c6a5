"""How far a Delta table on this machine has come in its topics, read from its log without Spark.

The newest commit of the sink that writes it says so. A table that several sinks write has an end
for each, and no answer here.
"""

from __future__ import annotations

import json
from pathlib import Path

from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.offsets import to_dict
from pipelines.base.errors import PipelineError
from pipelines.sinks.delta_log import DeltaLogReader

NOBODY = ""
"""As whom the log is read: every sink's commits are others' then."""


class FolderFiles:
    """`delta_log.Files` and `checkpoint.Files` on a folder of this machine."""

    def read_text(self, path: str) -> str | None:
        """None where there is no such file."""
        try:
            return Path(path).read_text()
        except FileNotFoundError:
            return None

    def names(self, folder: str) -> list[str]:
        """None where there is no such folder."""
        if not Path(folder).is_dir():
            return []
        return sorted(each.name for each in Path(folder).iterdir())

    def rename(self, path: str, new_path: str) -> None:
        Path(path).rename(new_path)

    def remove(self, path: str) -> None:
        Path(path).unlink()

    def write_text(self, path: str, text: str) -> None:
        Path(path).write_text(text)


def table_end(folder: Path) -> TopicOffsets:
    """Everything below it is in the table. Raises PipelineError in one sentence."""
    if not (folder / "_delta_log").is_dir():
        raise PipelineError(f"{folder} is no Delta table on this machine: it has no _delta_log")
    chains = DeltaLogReader(FolderFiles(), str(folder), NOBODY).other_chains()
    found = {app_id: chain for app_id, chain in sorted(chains.items()) if chain is not None}
    if not found:
        raise PipelineError(f"no commit in sight of the table {folder} is a pipeline's")
    if len(found) > 1:
        raise PipelineError(
            f"the table {folder} is written by {', '.join(found)}: it has an end for each"
        )
    (chain,) = found.values()
    if chain.reached is None or not chain.reached.ends:
        raise PipelineError(f"the table {folder} does not say how far it has come")
    return chain.reached


def starting_offsets(folder: Path | str) -> str:
    """For the option `startingOffsets`: a stream or batch that goes on where the table ends.

    With the topics' ids, so that a topic that was created again is refused. Raises PipelineError.
    """
    return json.dumps(to_dict(table_end(Path(folder))))
