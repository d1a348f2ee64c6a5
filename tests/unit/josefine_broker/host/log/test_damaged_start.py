"""A log that recovery refuses is opened for repair with every segment in its place, and is whole
again once other replicas have sent what is damaged."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.log_completeness import Completeness
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_state import LogState
from josefine_broker.host.log.repairable import RepairableLog
from josefine_broker.records.batch import BatchHeader, iter_batches
from josefine_broker.records.crc import Buffer
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import (
    DIRECTORY,
    NOW_MS,
    append,
    open_log,
    read_all,
)
from tests.unit.josefine_broker.host.log.test_segment_rebuild import CONFIG, filled

EPOCHS = LeaderEpochs([(0, 0), (1, 50)])
Harm = Callable[[MemoryFiles], object]


def segment(files: MemoryFiles, number: int, suffix: str = ".log") -> str:
    logs = sorted(name for name in files.names if name.endswith(".log"))
    return logs[number].removesuffix(".log") + suffix


def lose(number: int, *suffixes: str) -> Harm:
    def harm(files: MemoryFiles) -> None:
        for path in [segment(files, number, suffix) for suffix in suffixes]:
            del files.names[path]

    return harm


def shorten(number: int, size: int, *, index: bool = True) -> Harm:
    def harm(files: MemoryFiles) -> None:
        del files.names[segment(files, number)].data[size:]
        if not index:
            del files.names[segment(files, number, ".index")]

    return harm


def flip(number: int, byte: int) -> Harm:
    """In a segment without an index, which is read at a start."""

    def harm(files: MemoryFiles) -> None:
        files.names.pop(segment(files, number, ".index"), None)
        files.names[segment(files, number)].data[byte] ^= 1

    return harm


HARMS: dict[str, Harm] = {
    "first segment missing": lose(0, ".log"),
    "segment missing": lose(1, ".log"),
    "segment and index missing": lose(1, ".log", ".index", ".timeindex"),
    "two segments missing": lambda files: (lose(1, ".log")(files), lose(1, ".log")(files)),
    "last segment missing": lose(-1, ".log"),
    "last segment and index missing": lose(-1, ".log", ".index", ".timeindex"),
    "emptied": shorten(1, 0),
    "shortened": shorten(1, 700),
    "shortened, no index": shorten(1, 700, index=False),
    "last segment shortened": shorten(-1, 50),
    "last segment shortened, no index": shorten(-1, 50, index=False),
    "flip, no index": flip(1, 70),
    "flip in the last segment, no index": flip(-1, 70),
}
BY_HARM = pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())


def closed() -> MemoryFiles:
    files = MemoryFiles()
    filled(files).close()
    return files


def opened(
    files: MemoryFiles,
    *,
    is_damaged: bool,
    is_verified: bool = False,
    seen: list[int] | None = None,
) -> PartitionLog:
    def on_batch(header: BatchHeader, batch: Buffer) -> None:
        if seen is not None:
            seen.append(header.base_offset)

    return PartitionLog.open(
        files,
        DIRECTORY,
        CONFIG,
        NOW_MS,
        True,
        is_damaged=is_damaged,
        is_verified=is_verified,
        on_batch=on_batch,
    )


def heal(log: PartitionLog, files: MemoryFiles, peer: PartitionLog) -> None:
    for base in list(log.damage.found):
        made = RepairableLog(files, log).rebuild(base, EPOCHS)
        assert made is not None
        restarts = 0
        while (wanted := made.copy(lambda: None)) is not None or not made.finish():
            if wanted is not None:
                answer = b"".join(peer.read(wanted, 500, end_offset=peer.log_end_offset))
                with suppress(CorruptData):
                    made.supply(answer)
                # Once it may distrust what it copied of this log, and begin again.
                restarts += not (made.wanted > wanted or made.cursor >= made.end_offset)
                assert restarts <= 1
        assert made.install()
        made.close()


@BY_HARM
def test_refused_log_is_opened_for_repair_and_made_whole(harm: Harm) -> None:
    files, peer = closed(), filled(MemoryFiles())
    harm(files)
    with pytest.raises(CorruptData):
        opened(files, is_damaged=False)

    log = opened(files, is_damaged=True)

    assert log.damage.found
    assert log.log_end_offset == peer.log_end_offset, "no offset is assigned twice"
    heal(log, files, peer)
    assert read_all(log) == read_all(peer)
    assert log.verify().problems == ()
    append(log, [b"more"], leader_epoch=2)
    log.close()
    assert read_all(opened(files, is_damaged=False))[:-1] == read_all(peer)


@BY_HARM
def test_log_that_is_not_repaired_yet_is_found_so_by_the_next_start(harm: Harm) -> None:
    files, peer = closed(), filled(MemoryFiles())
    harm(files)
    opened(files, is_damaged=True).abandon()

    log = opened(files, is_damaged=True)

    heal(log, files, peer)
    assert read_all(log) == read_all(peer)


@BY_HARM
def test_damaged_batches_are_not_read_before_the_repair(harm: Harm) -> None:
    files = closed()
    intact = dict(read_all(filled(MemoryFiles())))
    harm(files)
    log = opened(files, is_damaged=True)
    found, offset = 0, 0
    while offset < log.log_end_offset:
        try:
            log.read(offset, 1)
            found += 1
        except KafkaError:
            pass
        offset += 1

    assert 0 < found < len(intact)


@BY_HARM
def test_replay_that_passes_over_damage_is_remembered(harm: Harm) -> None:
    """Also where a segment ends early: what is missing there causes no error of its own."""
    files = closed()
    intact = [offset for offset, _ in read_all(filled(MemoryFiles()))]
    harm(files)
    seen: list[int] = []

    log = opened(files, is_damaged=True, seen=seen)

    assert log.damage.lacks_batches
    assert set(seen) < set(intact)


def rotten(number: int) -> tuple[MemoryFiles, int]:
    """A bit of a sealed segment's last batch has flipped, in the header: its producer."""
    files = closed()
    data = files.names[segment(files, number)].data
    position, header = list(iter_batches(bytes(data)))[-1]
    data[position + 48] ^= 1
    return files, header.base_offset


@pytest.mark.parametrize("number", [0, 1, -1])
def test_replay_at_a_start_refuses_a_batch_whose_checksum_is_wrong(number: int) -> None:
    files, _ = rotten(number)

    with pytest.raises(CorruptData):
        opened(files, is_damaged=False, is_verified=True)


@pytest.mark.parametrize("number", [0, 1, -1])
def test_replay_for_a_repair_passes_over_a_batch_whose_checksum_is_wrong(number: int) -> None:
    files, offset = rotten(number)
    seen: list[int] = []

    log = opened(files, is_damaged=True, seen=seen)

    assert offset not in seen
    assert log.damage.lacks_batches
    assert log.damage.found
    heal(log, files, filled(MemoryFiles()))
    assert log.replay(None, lambda header, _: seen.append(header.base_offset))
    assert offset in seen


def test_log_without_any_segment_file_starts_empty_and_in_doubt() -> None:
    files = closed()
    for path in [each for each in files.names if each.endswith((".log", ".index", ".timeindex"))]:
        del files.names[path]

    log = opened(files, is_damaged=True)

    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    assert not log.damage.found
    assert log.recovery_report.completeness is Completeness.MISSING


@pytest.mark.parametrize("past", [0, 1, 500])
def test_a_log_that_starts_past_all_that_is_left_has_nothing_to_repair(past: int) -> None:
    """The start follows the leader's, and a power loss takes the end: what is left was deleted on
    every replica, so nobody could send what is damaged there."""
    files = closed()
    end = opened(files, is_damaged=False).log_end_offset
    LogState(files, DIRECTORY).store_log_start_offset(end + past)
    flip(-1, 70)(files)
    with pytest.raises(CorruptData):
        opened(files, is_damaged=False)

    log = opened(files, is_damaged=True)

    assert (log.log_start_offset, log.log_end_offset) == (end + past, end + past)
    assert (log.damage.found, read_all(log)) == ({}, [])
    is_lost = log.recovery_report.completeness is Completeness.MISSING
    assert is_lost == bool(past)
    append(log, [b"next"])
    assert opened(files, is_damaged=False).log_end_offset == end + past + 1


def killed() -> MemoryFiles:
    """A log whose last segments were never synced."""
    files = MemoryFiles()
    log = open_log(files, CONFIG)
    for number in range(90):
        append(log, [b"%04d" % number] * (1 + number % 3))
    log.abandon()
    return files


@pytest.mark.parametrize("also", [lose(0, ".log"), lose(1, ".log"), flip(-1, 70)])
def test_unfinished_end_of_a_damaged_log_is_in_doubt(also: Harm) -> None:
    """A file that was shortened looks the same, and other replicas may have what it had."""
    files = killed()
    del files.names[segment(files, -1)].data[-7:]
    also(files)

    log = opened(files, is_damaged=True)

    assert log.damage.found
    assert log.recovery_report.completeness is Completeness.UNSYNCED


def test_doubt_of_an_earlier_start_stays_while_the_log_is_damaged() -> None:
    """That start was killed before the cluster knew of it."""
    files = closed()
    LogState(files, DIRECTORY).store_completeness(Completeness.SHORTENED)
    lose(1, ".log")(files)

    log = opened(files, is_damaged=True)

    assert log.recovery_report.completeness is Completeness.SHORTENED


def test_intact_log_is_opened_as_ever() -> None:
    log = opened(closed(), is_damaged=True)

    assert not log.damage.found
    assert read_all(log) == read_all(filled(MemoryFiles()))


def test_damaged_segment_is_truncated_by_its_offsets_and_repaired_up_to_there() -> None:
    """A follower must cut what its leader does not have, also where it cannot read it."""
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    files.names[segment(files, 0)].data[:300] = bytes(300)

    log.truncate_to(9)

    assert log.log_end_offset == 9
    seen: list[int] = []
    assert not log.replay(None, lambda header, _: seen.append(header.base_offset))
    assert all(each < 9 for each in seen)
    append(log, [b"another"], leader_epoch=3)
    heal(log, files, peer)
    assert read_all(log)[:-1] == read_all(peer)[:9]
    log.close()
    assert read_all(opened(files, is_damaged=False))[-1] == (9, b"another")


def test_flipped_base_offset_does_not_make_a_cut_fall_before_intact_batches() -> None:
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    files.names[segment(files, 0)].data[3] ^= 1  # offset 0 becomes one past every other

    log.truncate_to(9)

    assert log.log_end_offset == 9
    seen: list[int] = []
    assert not log.replay(None, lambda header, _: seen.append(header.base_offset))
    assert all(each < 9 for each in seen)
    heal(log, files, peer)
    assert read_all(log) == read_all(peer)[:9]


def test_truncated_segment_with_damage_replays_no_batch_past_its_end() -> None:
    """The damage is after the cut, and the file keeps the batches until it is repaired."""
    files = MemoryFiles()
    log = filled(files)
    data = files.names[segment(files, 0)].data
    last = list(iter_batches(bytes(data)))[-1]
    data[last[0] + 8 : last[0] + 12] = b"\0\0\0\0"
    seen: list[int] = []

    log.damage.end_at(log._segments[0], 9, CorruptData("a test"))
    log.replay(None, lambda header, _: seen.append(header.base_offset))

    assert not [each for each in seen if 9 <= each < log._segments[1].base_offset]


@pytest.mark.parametrize("harm", [h for name, h in HARMS.items() if "last segment" in name])
def test_damaged_end_of_a_log_is_in_doubt_because_more_may_have_followed(harm: Harm) -> None:
    files = closed()
    harm(files)

    log = opened(files, is_damaged=True)

    assert log.recovery_report.completeness is Completeness.SHORTENED


@pytest.mark.parametrize("seed", range(60))
def test_damaged_start_removes_no_intact_batch_that_is_not_deleted(seed: int) -> None:
    """Whatever is damaged, and wherever the log starts: another replica may need each of them."""
    rng = Random(seed)
    files = rng.choice((killed, closed))()
    whole = [
        (header.end_offset, bytes(each.data[at : at + header.size_bytes]))
        for name, each in files.names.items() if name.endswith(".log")
        for at, header in iter_batches(bytes(each.data))
    ]  # fmt: skip
    end = max(each for each, _ in whole)
    start = rng.choice((0, rng.randrange(end), end - rng.randrange(20), end + 5))
    LogState(files, DIRECTORY).store_log_start_offset(start)
    for _ in range(rng.randint(1, 2)):
        number = rng.choice((0, 1, -1))
        harm = rng.choice((
            lose(number, ".log"), flip(number, rng.randrange(500)), shorten(number, 500),
        ))  # fmt: skip
        with suppress(IndexError):
            harm(files)

    def intact() -> list[int]:
        kept = [bytes(each.data) for name, each in files.names.items() if name.endswith(".log")]
        return [last for last, batch in whole if last > start and any(batch in it for it in kept)]

    before = intact()
    log = opened(files, is_damaged=True)

    assert intact() == before
    assert log.log_end_offset >= max(before, default=start)
