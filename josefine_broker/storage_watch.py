"""Looks whether this broker can still write. Reads the file system, and sets two fields."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection
from pathlib import Path

from josefine_broker.config import IdentitySection
from josefine_broker.handlers.context import Context

log = logging.getLogger(__name__)

NAMED_MAX = 10
ENOUGH_AGAIN = 1.25
"""Times the reserve must be free before records are taken again: no flapping at the edge."""


def look_at_storage(ctx: Context, config: IdentitySection) -> None:
    """Periodic: is there space, and can every log be written?"""
    free = free_bytes(config.data_dir)
    ctx.disk_full = free < needed_bytes(ctx, config)
    trouble = f"{free} bytes free, broker.disk_free_bytes_min is {config.disk_free_bytes_min}"
    if not ctx.disk_full:
        trouble = failed_logs(ctx)
    if bool(trouble) != bool(ctx.storage_trouble):
        log.warning("storage", extra={"trouble": trouble or "over"})
    ctx.storage_trouble = trouble


def free_bytes(directory: Path) -> int:
    """Space that this process may still use there. Raises OSError."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def needed_bytes(ctx: Context, config: IdentitySection) -> int:
    """Space that must be free for this broker to take records, or to take them again."""
    return int(config.disk_free_bytes_min * (ENOUGH_AGAIN if ctx.disk_full else 1))


def failed_logs(ctx: Context) -> str:
    """The partitions here that the disk does not let be opened or written, as a sentence; empty:
    none. It takes the others' logs next, so their leaderships go, too."""
    failed = [tp for tp, unopened in ctx.unopened.items() if not unopened.is_damaged]
    failed += [tp for tp, each in ctx.partitions.items() if each.log.failure]
    return f"storage failed: {named(failed)}" if failed else ""


def damaged_logs(ctx: Context) -> str:
    """The partitions here whose log is not what was written. The others are served."""
    damaged = {tp: each.reason for tp, each in ctx.unopened.items() if each.is_damaged}
    if not damaged:
        return ""
    return f"offline, for the log is damaged: {named(damaged)}; {next(iter(damaged.values()))}"


def named(tps: Collection[tuple[str, int]]) -> str:
    """Partitions in a sentence."""
    names = ", ".join(f"{topic}-{index}" for topic, index in list(tps)[:NAMED_MAX])
    more = len(tps) - NAMED_MAX
    return f"{names} and {more} more" if more > 0 else names
