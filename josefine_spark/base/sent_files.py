"""Lets a stream's process beside the driver import what `--py-files` and `addPyFile` sent.

Spark keeps what was sent in one folder of the driver. A batch's planner and every task are given
that folder, but a stream's process is told to look in `streaming_job` below it
(PythonStreamingSourceRunner.init, in 4.1 and 4.2), and nothing makes that: the stream ends with
"No module named 'josefine_spark'". Here it is made, as a link to the folder itself, so that it also
has what is sent later. Spark removes the folder when the driver ends.
"""

import contextlib
from pathlib import Path

STREAM_FOLDER = "streaming_job"


def link_for_streams(folder: Path) -> None:
    """`folder` has what was sent. What is there by the link's name stays. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        (folder / STREAM_FOLDER).symlink_to(".", target_is_directory=True)
