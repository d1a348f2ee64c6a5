"""Workaround that lets a stream's process import the files of `--py-files` and `addPyFile`.

Spark keeps the sent files in one folder of the driver. A batch's planner and every task receive the
path of that folder, but a stream's process receives the path of `streaming_job` in it
(PythonStreamingSourceRunner.init, in 4.1 and 4.2), which nothing creates: the stream fails with
"No module named 'josefine_spark'". Here it is created, as a link to the folder itself, so that it
also contains files that are sent later. Spark removes the folder when the driver ends.
"""

import contextlib
from pathlib import Path

STREAM_FOLDER = "streaming_job"


def link_for_streams(folder: Path) -> None:
    """Create the link in `folder`, which has the sent files; an existing one is kept. Raises
    OSError."""
    with contextlib.suppress(FileExistsError):
        (folder / STREAM_FOLDER).symlink_to(".", target_is_directory=True)
