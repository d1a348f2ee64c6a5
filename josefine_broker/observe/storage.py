"""The check whether this broker can still write. Reads the file system, and sets two fields."""

from __future__ import annotations

import logging
import os
import resource
from collections.abc import Collection
from pathlib import Path

from josefine_broker.base.ports import Files
from josefine_broker.base.rounds import Rounds
from josefine_broker.config.sections import IdentitySection
from josefine_broker.engine.context import Context
from josefine_broker.engine.replicas.limited import note_unsynced
from josefine_broker.host.log.log_sync import NO_HANDLE

log = logging.getLogger(__name__)

NAMED_MAX = 10
METADATA = ("metadata", -1)
"""Named like a partition among what is refused."""
PROBE_FILE, PROBE_BYTES = "write.probe", 1024 * 1024
ENOUGH_AGAIN = 1.25
"""Multiple of the reserve that must be free before records are accepted again: no flapping."""


class FailedLogs:
    """The hosted logs that cannot be written, checked in turn (`base/rounds.py`)."""

    def __init__(self, files: Files) -> None:
        """`files`: the disk of the logs."""
        self.files = files
        self._rounds = Rounds[tuple[str, int]]()
        self._failed: dict[tuple[str, int], None] = {}
        self._unsynced: dict[tuple[str, int], None] = {}

    def look(self, ctx: Context) -> list[tuple[str, int]]:
        """Check the next logs."""
        partitions, failed = ctx.hosted.partitions, self._failed
        for tp in (*failed, *self._unsynced, *self._rounds.next(partitions)):
            hosted = partitions.get(tp)
            if hosted is not None and hosted.log.unsynced:
                self._unsynced[tp] = None
                note_unsynced(ctx, tp, hosted)
            elif self._unsynced:
                self._unsynced.pop(tp, None)
            if hosted is not None and hosted.log.failure:
                failed[tp] = None
            elif failed:
                failed.pop(tp, None)
        return list(failed)


def look_at_storage(ctx: Context, config: IdentitySection, logs: FailedLogs) -> None:
    """Periodic: is there enough space, and can every log be written?"""
    free = free_bytes(config.data_dir)
    ctx.storage.is_full = free < needed_bytes(ctx, config)
    trouble = f"{free} bytes free, broker.disk_free_bytes_min is {config.disk_free_bytes_min}"
    if not ctx.storage.is_full:
        trouble = _told(ctx, logs.look(ctx)) or limit_trouble(ctx, logs.files)
    if bool(trouble) != bool(ctx.storage.trouble):
        log.warning("storage", extra={"trouble": trouble or "over"})
    ctx.storage.trouble = trouble


def limit_trouble(ctx: Context, files: Files) -> str:
    """Periodic: the limit of this machine that lasts, as a sentence; empty: none. While there is
    one, trial writes show when it has passed."""
    limit, now_ms = ctx.storage.limit, ctx.clock.monotonic_ms()
    lacks = ctx.storage.metadata_lacks
    if lacks:
        limit.refused(METADATA, ctx.metadata.applied_height, f"metadata: {lacks}", now_ms)
    if limit.is_probe_due(now_ms):
        limit.probed(lacks or _probe(files), now_ms)
    return f"a limit of this machine keeps records out: {limit.reason}" if limit.reason else ""


def _probe(files: Files) -> str:
    """Why no file of the size of a large record can be written; empty: one was."""
    try:
        try:
            file = files.open(PROBE_FILE, create=True)
            try:
                file.write_at_end((bytes(PROBE_BYTES),))
            finally:
                file.close()
        finally:
            files.remove(PROBE_FILE)
    except OSError as error:
        return f"a trial write failed: {error}"
    return ""


def free_bytes(directory: Path) -> int:
    """Space that this process may still use there. Raises OSError."""
    stat = os.statvfs(directory)
    return stat.f_bavail * stat.f_frsize


def no_handle(directory: Path) -> str:
    """Why no file can be opened, and what to do; empty: one can be."""
    try:
        os.close(os.open(directory, os.O_RDONLY))
    except OSError as error:
        if error.errno not in NO_HANDLE:
            return ""  # what else is wrong with it is reported where it is used
        limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return (
            f"no file can be opened: {error.strerror}, the limit of this process is {limit}; "
            "records that need a new file are refused until it is raised, or connections end"
        )
    return ""


def room_bytes(config: IdentitySection) -> int:
    """Bytes that may be written without touching the reserve. Raises OSError."""
    return free_bytes(config.data_dir) - config.disk_free_bytes_min


def needed_bytes(ctx: Context, config: IdentitySection) -> int:
    """Space that must be free for this broker to accept records, or to accept them again."""
    return int(config.disk_free_bytes_min * (ENOUGH_AGAIN if ctx.storage.is_full else 1))


def failed_logs(ctx: Context) -> str:
    """The partitions here whose log the disk cannot open or write, as a sentence; empty: none.
    Other logs may fail next, so their leaderships move away too."""
    return _told(ctx, [tp for tp, each in ctx.hosted.partitions.items() if each.log.failure])


def _told(ctx: Context, failed: list[tuple[str, int]]) -> str:
    unopened = [tp for tp, each in ctx.hosted.unopened.items() if not each.is_damaged]
    failed = unopened + failed
    return f"storage failed: {named(failed)}" if failed else ""


def damaged_logs(ctx: Context) -> str:
    """The partitions here whose log is damaged. The others are served."""
    damaged = {tp: each.reason for tp, each in ctx.hosted.unopened.items() if each.is_damaged}
    if not damaged:
        return ""
    return f"offline, for the log is damaged: {named(damaged)}; {next(iter(damaged.values()))}"


def named(tps: Collection[tuple[str, int]]) -> str:
    """Partitions listed in a sentence."""
    names = ", ".join(f"{topic}-{index}" for topic, index in list(tps)[:NAMED_MAX])
    more = len(tps) - NAMED_MAX
    return f"{names} and {more} more" if more > 0 else names
