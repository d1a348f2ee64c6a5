"""Why the stream of a Delta table failed: each refusal of Delta with its way out. Pure."""

from __future__ import annotations

from pipelines.model.pipeline import Source

_NO_FILE = ("FileNotFoundException", "FAILED_READ_FILE.FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND")
_REFUSALS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        ("DELTA_SOURCE_TABLE_IGNORE_CHANGES", "DELTA_SOURCE_IGNORE_DELETE"),
        "a commit deletes or updates rows that the sink may have. Expected `on_change: "
        "skip_changes` at {place} (the commit is passed over), `ignore_deletes` (only deletes "
        "along partitions), or `changes: true` with a sink that follows them",
    ),
    (
        ("DELTA_MISSING_CHANGE_DATA", "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE", "CHANGE_TABLE_FEED"),
        "a version in the way has no change data feed. Set delta.enableChangeDataFeed = true on "
        "the table, and `start: {{ version: N }}` at {place} to the first version after that",
    ),
    (
        ("DELTA_SCHEMA_CHANGED", "DELTA_STREAMING_INCOMPATIBLE_SCHEMA_CHANGE"),
        "the table's columns have changed. Run again: the next run reads the new ones, and fits "
        "`schema` at {place} to them if it must",
    ),
    (
        ("DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSIONS_NOT_CONTIGUOUS", "DELTA_VERSION_NOT_FOUND"),
        "entries of the table's log were deleted before they were read. Restore them, or give the "
        "sink a new name and table and `start: {{ version: N }}` at {place}",
    ),
    (
        _NO_FILE,
        "VACUUM or another program has deleted files that were not read yet. Restore them from a "
        "copy, or continue after them: give the sink a new name and table and `start: {{ version: "
        "N }}` at {place}. Let VACUUM retain more than the longest pause of this pipeline",
    ),
)
"""What the text of a failure contains → its reason, with the way out."""


def why_table_failed(source: Source, failure: BaseException) -> str:
    """The reason for the user; "" for another failure."""
    if source.local is None or source.table_stream is None:
        return ""
    text = str(failure)
    for marks, why in _REFUSALS:
        # A missing file may be one of the sink's own table.
        if marks is _NO_FILE and source.local.path not in text:
            continue
        if any(mark in text for mark in marks):
            said = why.format(place=source.place)
            return f"source `{source.name}` ({source.local.path}): {said}"
    return ""
