"""Group commit of one log: what is durable, and what a crash, a cut or a failed sync leaves."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.log.log import PartitionLog
from tests.simulation.memory_files import MemoryFiles
from tests.support.manual_syncs import ManualSyncs
from tests.unit.josefine_broker.host.log.support import NOW_MS, append, open_log, read_all

TP = TopicPartition("orders", 0)
SYNCED = LogConfig(flush_messages=1)


def grouped(
    files: MemoryFiles, syncs: ManualSyncs, config: LogConfig = SYNCED, schedule: object = run_now
) -> PartitionLog:
    log = open_log(files, config, schedule=schedule)  # type: ignore[arg-type]
    files.sync_directory("")  # as a broker's LogManager does
    log.group_syncs(partial(syncs.group.want, TP))
    return log


def test_append_counts_once_it_is_synced_and_does_not_wait_for_that() -> None:
    files, syncs = MemoryFiles(), ManualSyncs()
    log = grouped(files, syncs)

    append(log, [b"a"])
    append(log, [b"b", b"c"])
    assert (log.log_end_offset, log.durable_end_offset, files.syncs) == (3, 0, 0)

    assert syncs.end_turn() == 1
    syncs.finish()
    assert (log.durable_end_offset, files.syncs) == (3, 1)
    assert syncs.end_turn() == 0


def test_what_is_appended_while_a_sync_runs_has_one_of_its_own() -> None:
    files, syncs, told = MemoryFiles(), ManualSyncs(), []
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


def test_log_that_asks_while_another_one_has_its_sync_gets_one() -> None:
    """It waited for ever where the other had asked again before."""
    files, syncs = MemoryFiles(), ManualSyncs()
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


def test_failed_sync_counts_nothing_and_ends_the_log() -> None:
    files, syncs, told = MemoryFiles(), ManualSyncs(), []
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


def test_sync_that_found_no_room_is_made_again_when_there_is() -> None:
    """The identity of a new log needs a new name before anything of the log is durable."""
    files, syncs = MemoryFiles(), ManualSyncs()
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


def test_sync_under_way_does_not_bring_back_what_was_cut() -> None:
    """Cut and written anew while the sync waited: only what was there when it ran is durable."""
    files, syncs = MemoryFiles(), ManualSyncs()
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


def test_segment_that_filled_while_a_sync_waited_is_synced_with_it() -> None:
    jobs: list[Job] = []
    files, syncs = MemoryFiles(), ManualSyncs()
    log = grouped(files, syncs, LogConfig(flush_messages=1, segment_records=2), jobs.append)
    append(log, [b"a"])
    syncs.end_turn()
    for value in (b"b", b"c", b"d", b"e"):
        append(log, [value])

    syncs.finish()  # the full segments have not been sealed yet

    assert log.durable_end_offset == 5
    again = open_log(files.power_loss(Random(1)), SYNCED)
    assert [value for _, value in read_all(again)] == [b"a", b"b", b"c", b"d", b"e"]


def test_promise_that_a_config_makes_later_covers_what_is_there() -> None:
    files, syncs = MemoryFiles(), ManualSyncs()
    log = grouped(files, syncs, LogConfig())
    append(log, [b"a"])
    assert (log.durable_end_offset, syncs.end_turn()) == (1, 0)

    log.configure(SYNCED)
    assert log.durable_end_offset == 0
    syncs.settle()
    assert log.durable_end_offset == 1


@pytest.mark.parametrize("seed", range(60))
def test_power_loss_leaves_what_was_durable(seed: int) -> None:
    rng = Random(seed)
    files, syncs, jobs = MemoryFiles(), ManualSyncs(), list[Job]()
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
