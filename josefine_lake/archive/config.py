"""The archive of one topic, by the topic's configs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from josefine_lake.config.table_topic import ARCHIVE_ENABLE, ARCHIVE_LOCATION, TableTopic
from josefine_lake.writer.discovery import Parse

LEASES = "josefine-archive-leases"
"""The group whose members are the archive's writers."""
LAG_MS = 10_000
"""Largest time from the read of a record to the commit that has it, unless the user sets it."""


def archive_topic(
    topic: str, configs: Mapping[str, str | None], *, lag_ms: int = LAG_MS
) -> TableTopic | None:
    """None: the topic has no archive. Raises ValueError without a location."""
    if configs.get(ARCHIVE_ENABLE) != "true":
        return None
    location = configs.get(ARCHIVE_LOCATION)
    if not location:
        raise ValueError(f"'{ARCHIVE_ENABLE}' is true without '{ARCHIVE_LOCATION}': set it")
    # Every record fits the columns, so there are no dead letters.
    return TableTopic(
        topic=topic, location=location, dead_letter=None, target_lag_ms=lag_ms, is_archive=True
    )


def parser(lag_ms: int) -> Parse:
    """`archive_topic` with this lag."""
    return partial(archive_topic, lag_ms=lag_ms)
