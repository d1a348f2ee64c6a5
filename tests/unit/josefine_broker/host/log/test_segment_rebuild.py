"""A damaged segment is made intact from its own batches and those of other replicas, byte for byte,
whatever is damaged where; and a crash at any step leaves the old segment or the new one."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from dataclasses import replace
from random import Random

import pytest

from josefine_broker.base.errors import CorruptData, KafkaError
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.engine.partition.leader_epochs import LeaderEpochs
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.repairable import RepairableLog
from josefine_broker.host.log.segment_rebuild import SegmentRebuild
from josefine_broker.records.batch import HEADER_BYTES, iter_batches
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.cleaning import CutFiles, Killed
from tests.unit.josefine_broker.host.log.support import append, log_file, open_log, read_all

CONFIG = LogConfig(segment_bytes=3_000, index_interval_bytes=400)
COMPACTED = replace(CONFIG, cleanup_policy=frozenset(("compact",)))
EPOCHS = LeaderEpochs([(0, 0), (1, 50)])
BATCHES = 100


def filled(files: MemoryFiles, config: LogConfig = CONFIG) -> PartitionLog:
    """A replica: every one made like this has the same bytes."""
    log = open_log(files, config)
    for number in range(BATCHES):
        values = [b"%04d" % number] * (1 + number % 3)
        append(log, values, leader_epoch=int(log.log_end_offset >= 50))
    log.flush()
    files.sync_directory("")
    return log


def first_file(files: MemoryFiles) -> bytearray:
    return files.names[log_file()].data


def note(log: PartitionLog) -> None:
    log.damage.note(log._segments[0], 0, "a test")


def fetched(peer: PartitionLog, offset: int) -> bytes:
    """The answer of a replica: empty for a damaged batch."""
    with suppress(KafkaError):
        return b"".join(peer.read(offset, 500, end_offset=peer.log_end_offset))
    return b""


def rebuild(
    log: PartitionLog,
    files: MemoryFiles,
    peers: list[PartitionLog],
    epochs: LeaderEpochs = EPOCHS,
) -> SegmentRebuild:
    """Repair the first segment, as the engine does."""
    note(log)
    made = RepairableLog(files, log).rebuild(0, epochs)
    assert made is not None
    try:
        while True:
            wanted = made.copy(lambda: None)
            if wanted is None:
                if made.finish():
                    break
                continue
            for peer in peers:
                with suppress(CorruptData):
                    made.supply(fetched(peer, wanted))
                if made.wanted != wanted or made.cursor >= made.end_offset:
                    break
            else:
                assert made.keep_ours(), f"nobody has offset {wanted}"
        assert made.install()
    finally:
        made.close()
    return made


def spans(files: MemoryFiles) -> list[tuple[int, int]]:
    """(position, size) of each batch in the first file."""
    return [(pos, header.size_bytes) for pos, header in iter_batches(bytes(first_file(files)))]


@pytest.mark.parametrize("byte", [4, 7, 9, 14, 16, 18, 22, 40, HEADER_BYTES + 1])
def test_flip_in_any_field_of_a_batch_is_repaired(byte: int) -> None:
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    intact = bytes(first_file(files))
    position, _ = spans(files)[7]
    first_file(files)[position + byte] ^= 1

    made = rebuild(log, files, [peer])

    assert bytes(first_file(files)) == intact
    assert not log.damage.found
    assert made.bytes_fetched < 600, "only what is damaged is fetched"
    assert log.verify().problems == ()


def test_different_damage_of_each_replica_is_repaired_from_the_others() -> None:
    for seed in range(40):
        rng = Random(seed)
        disks = [MemoryFiles() for _ in range(3)]
        logs = [filled(files) for files in disks]
        intact, where = bytes(first_file(disks[0])), spans(disks[0])
        damaged = rng.sample(range(len(where)), 6)
        for number, files in enumerate(disks):
            for at in damaged[2 * number : 2 * number + 2]:
                position, size = where[at]
                first_file(files)[position + rng.randrange(size)] ^= 1 << rng.randrange(8)
        for number, files in enumerate(disks):
            peers = [each for each in logs if each is not logs[number]]
            rebuild(logs[number], files, peers)

        assert [bytes(first_file(each)) for each in disks] == [intact] * 3, f"seed {seed}"


@pytest.mark.parametrize(
    "harm",
    [
        lambda files: files.names.pop(log_file()),
        lambda files: first_file(files).clear(),
        lambda files: first_file(files).__delitem__(slice(1_000, None)),
        lambda files: first_file(files).__setitem__(slice(512, 1_024), bytes(512)),
        lambda files: first_file(files).__setitem__(slice(512, 1_024), first_file(files)[:512]),
        lambda files: first_file(files).__delitem__(slice(400, 700)),
    ],
    ids=["missing", "emptied", "shortened", "zeroed sector", "misdirected write", "shifted"],
)
def test_file_that_is_not_whole_is_repaired(harm: object) -> None:
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    intact = bytes(first_file(files))
    harm(files)  # type: ignore[operator]

    rebuild(log, files, [peer])

    assert bytes(first_file(files)) == intact
    assert len(read_all(log)) == log.log_end_offset


def test_batch_in_the_place_of_another_one_is_found_by_the_checksum_over_all() -> None:
    """Two intact batches of one size and epoch that changed places, offsets included."""
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    intact = bytes(first_file(files))
    (first, size), (second, other) = spans(files)[3], spans(files)[6]
    assert size == other
    data = first_file(files)
    body_of_second = bytes(data[second + 8 : second + size])
    data[first + 8 : first + size] = body_of_second

    rebuild(log, files, [peer])

    assert bytes(first_file(files)) == intact


def test_batch_of_ours_with_a_flipped_offset_does_not_keep_the_right_one_out() -> None:
    """The first batch is gone, and another one took its offset."""
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    intact = bytes(first_file(files))
    data = first_file(files)
    (_, size), (second, _) = spans(files)[0], spans(files)[1]
    data[:size] = bytes(size)
    data[second + 7] ^= data[second + 7]  # offset 1 becomes 0, with two records

    rebuild(log, files, [peer])

    assert bytes(first_file(files)) == intact


def test_damaged_answer_is_never_used() -> None:
    files = MemoryFiles()
    log = filled(files)
    peer = filled(MemoryFiles())
    position, _ = spans(files)[7]
    first_file(files)[position + 70] ^= 1
    note(log)
    made = RepairableLog(files, log).rebuild(0, EPOCHS)
    assert made is not None
    wanted = made.copy(lambda: None)
    assert wanted is not None
    answer = bytearray(fetched(peer, wanted))
    answer[70] ^= 1

    with pytest.raises(CorruptData):
        made.supply(answer)

    assert made.wanted == wanted
    made.close()


def test_batch_of_another_leader_epoch_is_refused() -> None:
    files = MemoryFiles()
    log = filled(files)
    position, _ = spans(files)[7]
    first_file(files)[position + 70] ^= 1
    note(log)
    made = RepairableLog(files, log).rebuild(0, EPOCHS)
    assert made is not None
    wanted = made.copy(lambda: None)
    other = filled(MemoryFiles())
    answer = bytearray(fetched(other, wanted or 0))
    answer[15] ^= 1  # the leader epoch, which no checksum of a batch covers

    with pytest.raises(CorruptData):
        made.supply(answer)
    made.close()


def test_lost_records_that_were_given_up_leave_a_batch_without_records() -> None:
    files = MemoryFiles()
    log = filled(files)
    before = dict(read_all(log))
    position, _ = spans(files)[7]
    lost = [h for _, h in iter_batches(bytes(first_file(files)))][7]
    first_file(files)[position + 70] ^= 1
    note(log)
    made = RepairableLog(files, log).rebuild(0, EPOCHS)
    assert made is not None
    assert made.copy(lambda: None) == lost.base_offset
    assert made.next_intact() == lost.end_offset
    while (wanted := made.copy(lambda: None)) is not None:
        assert wanted < lost.end_offset
        made.give_up()
    assert made.finish()
    assert made.install()
    made.close()

    gone = set(range(lost.base_offset, lost.end_offset))
    assert dict(read_all(log)) == {at: value for at, value in before.items() if at not in gone}
    assert log.log_end_offset == max(before) + 1


@pytest.mark.parametrize("lost", [0, 1, 2, 4, 5])
def test_batch_in_place_of_a_lost_one_keeps_leader_epochs_from_falling(lost: int) -> None:
    """Where the epochs of the log are unknown: each replay would find the copy damaged."""
    files = MemoryFiles()
    log = open_log(files, CONFIG)
    for number in range(6):
        append(log, [b"%d" % number], leader_epoch=(0, 0, 0, 1, 1, 2)[number])
    log.roll()
    position, size = spans(files)[lost]
    first_file(files)[position + size - 1] ^= 1
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)
    made = RepairableLog(files, log).rebuild(0, LeaderEpochs())
    assert made is not None

    while made.copy(lambda: None) is not None:
        made.give_up()
    assert made.finish()
    assert made.install()
    made.close()

    epochs = [header.leader_epoch for _, header in iter_batches(bytes(first_file(files)))]
    assert epochs == sorted(epochs)


def test_log_that_was_cut_meanwhile_is_left_as_it_is() -> None:
    files = MemoryFiles()
    log = filled(files)
    note(log)
    made = RepairableLog(files, log).rebuild(0, EPOCHS)
    assert made is not None
    assert made.copy(lambda: None) is None
    assert made.finish()
    log.truncate_to(5)

    assert not made.install()
    made.close()
    assert log.log_end_offset <= 5
    assert not [name for name in files.names if "repaired" in name]


def test_damaged_active_segment_is_rolled_and_repaired() -> None:
    files, peer = MemoryFiles(), filled(MemoryFiles())
    log = filled(files)
    base = log._segments[-1].base_offset
    path = log_file(f"{base:020d}.log")
    files.names[path].data[70] ^= 1
    with pytest.raises(KafkaError):
        log.read(base, 1_000)
    made = RepairableLog(files, log).rebuild(base, EPOCHS)
    assert made is not None
    assert not log.damage.is_active(base)
    wanted = made.copy(lambda: None)
    made.supply(fetched(peer, wanted or 0))
    assert made.copy(lambda: None) is None
    assert made.finish()
    assert made.install()
    made.close()

    append(log, [b"more"], leader_epoch=1)
    assert read_all(log)[:-1] == read_all(peer)


@pytest.mark.parametrize("power", [False, True], ids=["kill", "power loss"])
def test_crash_at_any_step_leaves_the_old_segment_or_the_new_one(power: bool) -> None:
    peer = filled(MemoryFiles())
    files = CutFiles()
    log = filled(files)
    intact = bytes(first_file(files))
    first_file(files)[70] ^= 1
    files.names[log_file()].durable = bytes(first_file(files))
    damaged = bytes(first_file(files))
    outcomes = set()
    for operation in range(200):
        files = CutFiles()
        log = filled(files)
        first_file(files)[70] ^= 1
        files.names[log_file()].durable = damaged
        files.operations, files.fails_at, files.error = 0, operation, Killed
        has_ended = True
        try:
            rebuild(log, files, [peer])
        except (Killed, AssertionError, OSError, KafkaError):
            has_ended = False
        files.fails_at = None
        disk = files.power_loss(Random(operation)) if power else files.copy()
        again = open_log(disk, CONFIG)
        found = bytes(first_file(disk))
        assert found in (damaged, intact), f"operation {operation}"
        outcomes.add(found == intact)
        assert again.log_end_offset == log.log_end_offset
        assert not [name for name in disk.names if "repaired" in name or "swap" in name]
        if has_ended:
            break
    else:
        pytest.fail("the repair has more operations than this test tries")

    assert outcomes == {False, True}


@pytest.mark.parametrize("number", [1, 5, 20])
@pytest.mark.parametrize("config", [CONFIG, COMPACTED], ids=["whole", "compacted"])
def test_batch_whose_base_offset_was_lost_with_a_sector_does_not_take_another_place(
    number: int, config: LogConfig
) -> None:
    """Zeros up to the end of its base offset make it the batch of offset 0, with a right checksum.
    The segment's own checksum is unknown, as after a start. That compaction may have removed what
    is missing before the next batch is no confirmation."""
    files, peer = MemoryFiles(), filled(MemoryFiles(), config)
    log = filled(files, config)
    data = first_file(files)
    start = list(iter_batches(bytes(data)))[number][0]
    data[: start + 8] = bytes(start + 8)
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)

    rebuild(log, files, [peer])

    assert read_all(log) == read_all(peer)


@pytest.mark.parametrize(("offset", "bit"), [(0, 16), (6, 1), (6, 16), (20, 8)])
@pytest.mark.parametrize("has_others", [True, False], ids=["another replica", "nobody has another"])
def test_batch_whose_base_offset_has_flipped_upwards_does_not_hide_those_after_it(
    offset: int, bit: int, has_others: bool
) -> None:
    """Where compaction may have left holes it looks as if it came after one, in the place of
    committed batches: those from 6 to 21 after a flip from 6 to 22 (seed 43716)."""
    disks = MemoryFiles(), MemoryFiles()
    log, peer = (open_log(files, COMPACTED) for files in disks)
    for number in range(BATCHES):
        for each in (log, peer):
            append(each, [b"%04d" % number])
    log.flush()
    data = first_file(disks[0])
    position = [pos for pos, _ in iter_batches(bytes(data))][offset]
    data[position + 7] ^= bit
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)

    if has_others:
        rebuild(log, disks[0], [peer], LeaderEpochs())
        assert read_all(log) == read_all(peer)
        return
    made = RepairableLog(disks[0], log).rebuild(0, LeaderEpochs())
    assert made is not None
    assert made.copy(lambda: None) == offset
    assert not made.keep_ours(), "the batches after it are intact"
    assert made.next_intact() == offset + 1
    made.close()


@pytest.mark.parametrize("epoch", [1, 8192])
def test_copy_has_no_falling_leader_epochs_where_the_epochs_of_the_log_are_unknown(
    epoch: int,
) -> None:
    """No checksum of a batch covers its leader epoch, and each replay would find the copy
    damaged."""
    files, disk = MemoryFiles(), MemoryFiles()
    peer = filled(disk)
    log = filled(files)
    data, (position, _) = first_file(files), spans(files)[5]
    data[position + 12 : position + 16] = epoch.to_bytes(4, "big")
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)

    rebuild(log, files, [peer], LeaderEpochs())

    assert first_file(files) == first_file(disk)


def test_tail_of_an_earlier_leader_does_not_follow_a_batch_of_a_later_one() -> None:
    """The batches before it are damaged here, and the leader has others in their place."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = open_log(files, CONFIG), open_log(disk, CONFIG)
    for number in range(4):
        append(log, [b"%d" % number], leader_epoch=0)
        append(peer, [b"%d" % number], leader_epoch=0 if number < 2 else 2)
    log.roll()
    peer.roll()
    position, size = spans(files)[2]
    first_file(files)[position + size - 1] ^= 1
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)

    rebuild(log, files, [peer], LeaderEpochs())

    assert first_file(files) == first_file(disk)


def test_batch_of_a_later_leader_does_not_hide_that_the_log_before_it_is_another_leaders() -> None:
    """It fits into the hole where producers sent both leaders the same."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = open_log(files, CONFIG), open_log(disk, CONFIG)
    for number in range(5):
        append(log, [b"%d" % number], leader_epoch=0 if number < 2 else 1)
        append(peer, [b"%d" % number], leader_epoch=0 if number < 3 else 2)
    log.roll()
    peer.roll()
    position, size = spans(files)[3]
    first_file(files)[position + size - 1] ^= 1
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)
    log.damage.lacks_batches = True

    rebuild(log, files, [peer], LeaderEpochs())

    assert first_file(files) == first_file(disk)


@pytest.mark.parametrize(("equal_to", "is_taken"), [(2, False), (3, True)])
def test_batch_of_a_later_leader_starts_a_segment_only_where_the_one_before_is_its_leaders(
    equal_to: int, is_taken: bool
) -> None:
    """It fits, and the segment before it may end with batches of a leader who lost."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = open_log(files, CONFIG), open_log(disk, CONFIG)
    for number in range(5):
        append(log, [b"%d" % number], leader_epoch=1 if number < 3 else 2)
        append(peer, [b"%d" % number], leader_epoch=0 if number < 2 else 2)
        if number == 2:
            log.roll()
    log.roll()
    log.flush()
    log.damage.note(log._segments[1], 3, "a test", is_checksum_known=False)
    log.damage.lacks_batches = True
    path = log_file("00000000000000000003.log")
    files.names[path].data[20] ^= 1
    made = RepairableLog(files, log).rebuild(3, LeaderEpochs(), equal_to)
    assert made is not None
    assert made.copy(lambda: None) == 3

    with nullcontext() if is_taken else pytest.raises(CorruptData, match="a leader who lost"):
        made.supply(fetched(peer, 3))
    made.close()


def lacking(files: MemoryFiles, epochs: list[int]) -> PartitionLog:
    """A log whose epochs are unknown, because its second batch is damaged since before it was
    opened."""
    log = open_log(files, CONFIG)
    for number, epoch in enumerate(epochs):
        append(log, [b"%d" % number], leader_epoch=epoch)
    log.roll()
    position, size = spans(files)[1]
    first_file(files)[position + size - 1] ^= 1
    log.damage.note(log._segments[0], 0, "a test", is_checksum_known=False)
    log.damage.lacks_batches = True
    return log


def test_own_batch_whose_epoch_has_flipped_upwards_is_not_taken_for_a_later_leaders() -> None:
    """It is the last one: no batch of an older epoch follows it here (life 44040)."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = lacking(files, [0, 0, 0, 2]), open_log(disk, CONFIG)
    for number in range(4):
        append(peer, [b"%d" % number], leader_epoch=0)
    peer.roll()

    rebuild(log, files, [peer], LeaderEpochs())

    assert first_file(files) == first_file(disk)


@pytest.mark.parametrize("has_peer", [True, False], ids=["confirmed", "nobody answers"])
def test_own_first_batch_of_a_later_epoch_is_used_if_no_replica_has_another(has_peer: bool) -> None:
    """No more is fetched than what is damaged, and the batch that starts the epoch."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = lacking(files, [0, 0, 0, 1, 1]), open_log(disk, CONFIG)
    for number, epoch in enumerate([0, 0, 0, 1, 1][: 5 if has_peer else 2]):
        append(peer, [b"%d" % number], leader_epoch=epoch)
    peer.roll()

    made = rebuild(log, files, [peer], LeaderEpochs())

    assert [*iter_batches(bytes(first_file(files)))][-1][1].leader_epoch == 1
    sizes = [size for _, size in spans(files)]
    assert made.bytes_fetched == sizes[1] + has_peer * sizes[3]


@pytest.mark.parametrize("committed", [[2, 2, 2, 2], [0, 2, 2, 2], [0, 0, 2, 2]])
def test_segment_that_starts_with_batches_of_a_leader_who_lost_is_replaced(
    committed: list[int],
) -> None:
    """Our first batch starts no epoch of the copy, so nobody is asked about it. A log that had it
    before the later leader's batches would end like its leader's, and lack what was committed."""
    files, disk = MemoryFiles(), MemoryFiles()
    log, peer = lacking(files, [1, 1, 1, 1]), open_log(disk, CONFIG)
    for number, epoch in enumerate(committed):
        append(peer, [b"%d" % number], leader_epoch=epoch)
    peer.roll()

    rebuild(log, files, [peer], LeaderEpochs())

    assert first_file(files) == first_file(disk)
