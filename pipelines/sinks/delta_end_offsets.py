"""End offsets of a Delta table on this machine, read from its log without Spark.

They are in the newest commit of the sink that writes the table. A table that several sinks write
has end offsets for each sink, which is an error here.
"""

from __future__ import annotations

import json
from pathlib import Path

from josefine_spark.base.topic_offsets import TopicOffsets
from josefine_spark.read.offsets import to_dict
from pipelines.base.errors import PipelineError
from pipelines.sinks.delta_log import DeltaLogReader
from pipelines.storage.files import FolderFiles

NOBODY = ""
"""The transaction id that no sink has: a reader with it sees every sink's commits as others'."""


def table_end(folder: Path) -> TopicOffsets:
    """The table's exclusive end offsets. Raises PipelineError in one sentence."""
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
        raise PipelineError(f"the last commit of the table {folder} has no readable end offsets")
    return chain.reached


def starting_offsets(folder: Path | str) -> str:
    """The option `startingOffsets` for a stream or batch that continues at the table's end.

    It has the topics' ids, so a recreated topic is refused. Raises PipelineError.
    """
    return json.dumps(to_dict(table_end(Path(folder))))
