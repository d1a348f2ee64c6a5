"""Group commit of one log: what is durable, and what a crash, a cut or a failed sync leaves. By
threads of Python alone, and with a syncer for the usual sync."""

from __future__ import annotations

import errno
from functools import partial
from random import Random
from uuid import UUID

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.disk.synced_mark import SyncedMark
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from tests.simulation.memory_files import MemoryFiles
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.host.log.support import (
    NOW_MS,
    append,
    open_in,
    open_log,
    read_all,
)

TP = TopicPartition("orders", 0)
SYNCED = LogConfig(flush_messages=1)
MARK = "orders-0/synced.checkpoint"

Made = tuple[MemoryFiles, ManualSyncs]


def made_with(*, syncer: bool) -> Made:
    files = MemoryFiles()
    return files, ManualSyncs(files if syncer else None)


@pytest.fixture(params=[False, True], ids=["threads", "syncer"])
def made(request: pytest.FixtureRequest) -> Made:
    return made_with(syncer=request.param)


def grouped(
    files: MemoryFiles, syncs: ManualSyncs, config: LogConfig = SYNCED, schedule: object = run_now
) -> PartitionLog:
    log = open_log(files, config, schedule=schedule)  # type: ignore[arg-type]
    files.sync_directory("")  # as a broker's LogManager does
    log.group_syncs(partial(syncs.group.want, TP))
    return log


def test_append_counts_once_it_is_synced_and_does_not_wait_for_that(made: Made) -> None:
    files, syncs = made
    log = grouped(files, syncs)

    append(log, [b"a"])
    append(log, [b"b", b"c"])
    assert (log.log_end_offset, log.durable_end_offset, files.syncs) == (3, 0, 0)

    assert syncs.end_turn() == 1
    syncs.finish()
    assert (log.durable_end_offset, files.syncs) == (3, 1)
    assert syncs.end_turn() == 0


def test_what_is_appended_while_a_sync_runs_has_one_of_its_own(made: Made) -> None:
    (files, syncs), told = made, list[TopicPartition]()
    syncs.group.on_synced = told.append
    log = grouped(files, syncs)
    append(log, [b"a"])
    syncs.end_turn()

    append(log, [b"b"])
    assert syncs.end_turn() == 1  # one sync of a log at a time
    syncs.finish()

    assert len(syncs.submitted) == 1
    syncs.finish()
    assert log.durable_end_offset == 2
    assert told == [TP, TP]


def test_log_that_asks_while_another_one_has_its_sync_gets_one(made: Made) -> None:
    """It waited for ever where the other had asked again before."""
    files, syncs = made
    first = grouped(files, syncs)
    second = PartitionLog.open(files, "orders-1", SYNCED, NOW_MS, clean_shutdown=False)
    second.group_syncs(partial(syncs.group.want, TopicPartition("orders", 1)))
    append(first, [b"a"])
    syncs.end_turn()
    append(first, [b"b"])
    syncs.end_turn()

    append(second, [b"c"])

    assert syncs.end_turn() == 2
    syncs.finish()
    assert second.durable_end_offset == 1


def test_failed_sync_counts_nothing_and_ends_the_log(made: Made) -> None:
    (files, syncs), told = made, list[TopicPartition]()
    syncs.group.on_synced = told.append
    log = grouped(files, syncs)
    append(log, [b"a"])
    files.failing_sync = True

    syncs.settle()

    assert log.durable_end_offset == 0
    assert "sync failed" in log.failure
    assert told == [TP]
    files.failing_sync = False
    with pytest.raises(KafkaError, match="sync failed"):
        append(log, [b"b"])


def test_sync_that_found_no_room_is_made_again_when_there_is(made: Made) -> None:
    """The identity of a new log needs a new name before anything of the log is durable."""
    files, syncs = made
    log = grouped(files, syncs)
    append(log, [b"a"])
    full = OSError(28, "no space left")

    def refuse(directory: str) -> None:
        raise full

    sync_directory, files.sync_directory = files.sync_directory, refuse  # type: ignore[method-assign]
    syncs.settle()
    assert (log.durable_end_offset, log.failure) == (0, "")

    files.sync_directory = sync_directory  # type: ignore[method-assign]
    assert log.flush_if_due(NOW_MS)
    syncs.settle()
    assert log.durable_end_offset == 1


def test_sync_under_way_does_not_bring_back_what_was_cut(made: Made) -> None:
    """Cut and written anew while the sync waited: only what was there when it ran is durable."""
    files, syncs = made
    log = grouped(files, syncs)
    for value in (b"a", b"b", b"c"):
        append(log, [value])
    syncs.settle()
    append(log, [b"d"])
    syncs.end_turn()

    log.truncate_to(1)
    assert log.durable_end_offset == 1
    log.restart_at(10)
    assert log.durable_end_offset == 10

    syncs.finish()
    assert log.durable_end_offset == 10
    assert log.failure == ""
    append(log, [b"e"])
    assert log.durable_end_offset == 10
    syncs.settle()
    assert log.durable_end_offset == 11


def test_segment_that_filled_while_a_sync_waited_is_synced_with_it(made: Made) -> None:
    jobs: list[Job] = []
    files, syncs = made
    log = grouped(files, syncs, LogConfig(flush_messages=1, segment_records=2), jobs.append)
    append(log, [b"a"])
    syncs.end_turn()
    for value in (b"b", b"c", b"d", b"e"):
        append(log, [value])

    syncs.finish()  # the full segments have not been sealed yet

    assert log.durable_end_offset == 5
    again = open_log(files.power_loss(Random(1)), SYNCED)
    assert [value for _, value in read_all(again)] == [b"a", b"b", b"c", b"d", b"e"]


def test_promise_that_a_config_makes_later_covers_what_is_there(made: Made) -> None:
    files, syncs = made
    log = grouped(files, syncs, LogConfig())
    append(log, [b"a"])
    assert (log.durable_end_offset, syncs.end_turn()) == (1, 0)

    log.configure(SYNCED)
    assert log.durable_end_offset == 0
    syncs.settle()
    assert log.durable_end_offset == 1


@pytest.mark.parametrize("seed", range(60))
def test_power_loss_leaves_what_was_durable(seed: int, made: Made) -> None:
    rng = Random(seed)
    (files, syncs), jobs = made, list[Job]()
    config = LogConfig(flush_messages=1, segment_records=rng.choice((2, 5, 1_000)))
    log = grouped(files, syncs, config, jobs.append)
    kept: list[bytes] = []
    for number in range(rng.randrange(5, 60)):
        choice = rng.random()
        if choice < 0.6:
            kept.append(b"%d" % number)
            append(log, [kept[-1]])
        elif choice < 0.75:
            syncs.end_turn()
        elif choice < 0.9:
            syncs.finish()
        elif choice < 0.95 and jobs:
            jobs.pop(0)()
        elif kept:
            end = rng.randrange(len(kept))
            log.truncate_to(end)
            del kept[end:]
    durable_end = log.durable_end_offset

    again = open_log(files.power_loss(rng), config)

    found = [value for _, value in read_all(again)]
    assert found[:durable_end] == kept[:durable_end]
    assert found == kept[: len(found)]


def warm(files: MemoryFiles, syncs: ManualSyncs, **more: object) -> PartitionLog:
    """A log whose first sync, which takes more than its file, is over."""
    log = grouped(files, syncs, **more)  # type: ignore[arg-type]
    append(log, [b"first"])
    syncs.settle()
    return log


def marked(files: MemoryFiles) -> int:
    """What the next start finds."""
    return SyncedMark(files, "orders-0").read().end


def test_usual_sync_is_the_syncers_and_counts_when_it_ends() -> None:
    files, syncs = made_with(syncer=True)
    log = warm(files, syncs)
    made, mark = syncs.syncer.made, len(files.names[MARK].data)  # type: ignore[union-attr]

    heard: list[TopicPartition] = []
    syncs.group.on_synced = heard.append
    append(log, [b"b"])
    assert syncs.end_turn() == 1
    append(log, [b"c"])
    assert (log.durable_end_offset, heard) == (1, [])
    syncs.finish()

    assert heard == [TP]
    assert log.durable_end_offset == 2  # what was there when it began
    syncs.settle()
    assert log.durable_end_offset == 3
    assert syncs.syncer.made == made + 2  # type: ignore[union-attr]
    assert len(files.names[MARK].data) == mark + 40
    assert marked(files) == 3
    log.abandon()
    assert files.descriptors == {}


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_failed_sync_of_the_syncer_ends_the_log_whatever_the_disk_says(code: int) -> None:
    """Even when it is full: the pages of a failed sync are lost."""
    files, syncs = made_with(syncer=True)
    log = warm(files, syncs)
    files.sync_descriptor = lambda descriptor: code  # type: ignore[method-assign]
    append(log, [b"b"])
    syncs.settle()

    assert log.durable_end_offset == 1
    assert "sync failed" in log.failure
    assert marked(files) == 1
    del files.sync_descriptor
    with pytest.raises(KafkaError, match="sync failed"):
        append(log, [b"c"])
    with pytest.raises(KafkaError, match="sync failed"):
        log.flush()
    assert files.descriptors.keys() == set()


def test_cut_waits_for_the_syncer_and_lowers_what_it_made_durable() -> None:
    files, syncs = made_with(syncer=True)
    log = warm(files, syncs)
    append(log, [b"b", b"c"])
    append(log, [b"d"])
    syncs.end_turn()

    log.truncate_to(3)

    assert syncs.syncer.waited == 1  # type: ignore[union-attr]
    assert (log.durable_end_offset, marked(files)) == (3, 3)
    syncs.settle()
    assert log.durable_end_offset == 3
    syncs.syncer.is_running = False  # type: ignore[union-attr]
    append(log, [b"e"])
    syncs.settle()
    assert log.durable_end_offset == 4


@pytest.mark.parametrize("code", [0, errno.EIO])
def test_removed_log_is_closed_by_the_end_of_its_sync_and_waits_for_none(code: int) -> None:
    """The next log of its name may be open by then: nothing of the old one reaches it."""
    files, syncs = made_with(syncer=True)
    manager = LogManager(files, group=syncs.group)
    old = open_in(manager, TP, TopicId(UUID(int=1)), SYNCED)
    append(old, [b"first"])
    syncs.settle()
    append(old, [b"b", b"c"])
    syncs.end_turn()
    file = old._segments[-1].file()

    manager.delete(TP)
    assert file.size() > 0
    assert syncs.syncer.waited == 0  # type: ignore[union-attr]
    assert len(files.descriptors) == 2  # of the log and of its mark
    with pytest.raises(KafkaError, match="closed"):
        append(old, [b"d"])
    new = open_in(manager, TP, TopicId(UUID(int=2)), SYNCED)
    append(new, [b"of the new one"])
    if code:
        files.sync_descriptor = lambda descriptor: code  # type: ignore[method-assign]
    syncs.finish()
    assert (files.descriptors, marked(files)) == ({}, 0)
    with pytest.raises(OSError, match="closed"):
        file.size()
    if code:
        del files.sync_descriptor

    syncs.settle()
    assert (new.durable_end_offset, marked(files), new.failure) == (1, 1, "")
    assert read_all(new) == [(0, b"of the new one")]
    manager.delete(TP)
    assert files.descriptors == {}


def test_segment_that_fills_during_the_syncers_sync_is_sealed_after_it() -> None:
    """Two syncs of one descriptor at a time would share its error: one of them would not see it."""
    jobs: list[Job] = []
    files, syncs = made_with(syncer=True)
    config = LogConfig(flush_messages=1, segment_records=2)
    log = warm(files, syncs, config=config, schedule=jobs.append)
    append(log, [b"b"])
    syncs.end_turn()
    append(log, [b"c"])
    running = len(files.descriptors)
    assert running == 2  # the segment, and the mark

    jobs[0]()  # the flusher, which waits for the lock

    assert files.descriptors == {}
    assert log.durable_end_offset == 2
    syncs.settle()
    assert log.durable_end_offset == 3


def test_mark_that_cannot_be_written_is_written_anew_later() -> None:
    files, syncs = made_with(syncer=True)
    log = warm(files, syncs)
    files.fails = lambda path: path == MARK
    append(log, [b"b"])
    syncs.settle()
    assert (log.durable_end_offset, log.failure) == (2, "")
    assert marked(files) == 1

    del files.fails
    files.fails = lambda path: False
    append(log, [b"c"])
    syncs.settle()
    assert marked(files) == 3


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_leave_the_same(seed: int) -> None:
    """One history, by the syncer and by threads alone: the same is durable after each settling,
    marked, reported and left by a failing disk."""
    found = [trace(Random(seed), *made_with(syncer=way)) for way in (False, True)]
    assert found[0] == found[1]


def trace(rng: Random, files: MemoryFiles, syncs: ManualSyncs) -> list[object]:
    heard: list[TopicPartition] = []
    syncs.group.on_synced = heard.append
    log = grouped(files, syncs, LogConfig(flush_messages=1, segment_records=rng.choice((3, 1_000))))
    seen: list[object] = []
    for number in range(rng.randrange(20, 120)):
        match rng.randrange(10):
            case 0:
                log.truncate_to(rng.randrange(log.log_end_offset + 1))
            case 1:
                log.restart_at(log.log_end_offset + 5)
            case 2 | 3:
                syncs.end_turn()
            case 4 | 5:
                syncs.finish()
            case 6 if number > 60:
                append(log, [b"%d" % number])
                files.failing_sync = True
                break
            case _:
                append(log, [b"%d" % number])
        if rng.random() < 0.3:
            append(log, [b"last"])  # nobody stores a mark of a log that was only cut
            syncs.settle()
            seen.append((log.durable_end_offset, marked(files), set(heard)))
    syncs.settle()
    is_failed = bool(log.failure)
    durable = None if is_failed else log.durable_end_offset
    log.abandon()
    assert files.descriptors == {}
    return [*seen, durable, is_failed]
