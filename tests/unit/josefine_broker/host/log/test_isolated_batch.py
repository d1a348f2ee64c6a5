"""An intact batch next to damaged ones is found, and only where a neighbour confirms its offset."""

from josefine_broker.host.log.isolated_batch import Place, find_isolated, read_around
from josefine_broker.records.batch import iter_batches
from tests.simulation.memory_files import SECTOR_BYTES, MemoryFiles
from tests.unit.josefine_broker.host.log.support import append, log_file, open_log


def segment(batches: int = 6) -> tuple[bytearray, list[tuple[int, int]], Place]:
    """Its bytes, (position, size) of each batch of one record, and its place."""
    files = MemoryFiles()
    log = open_log(files)
    for number in range(batches):
        append(log, [b"%04d" % number])
    data = files.names[log_file()].data
    spans = [(pos, header.size_bytes) for pos, header in iter_batches(bytes(data))]
    return data, spans, Place(0, 0, len(data), batches)


def found(data: bytearray, place: Place, offset: int) -> int | None:
    batch = find_isolated(bytes(data), place, offset)
    return None if batch is None else int.from_bytes(batch[:8], "big")


def test_batch_after_a_damaged_header_is_found() -> None:
    data, spans, place = segment()
    data[spans[1][0] + 10] ^= 0xFF

    assert [found(data, place, each) for each in range(6)] == [0, None, 2, 3, 4, 5]


def test_batch_between_two_damaged_ones_is_not_certain() -> None:
    data, spans, place = segment()
    for number in (1, 3):
        data[spans[number][0]] ^= 1
        data[spans[number][0] + 70] ^= 1

    assert [found(data, place, each) for each in range(6)] == [0, None, None, None, 4, 5]


def test_flipped_base_offset_does_not_pass_for_another_batch() -> None:
    data, spans, place = segment()
    data[spans[2][0] + 70] ^= 1
    data[spans[3][0] + 7] ^= 1  # 3 becomes 2

    assert found(data, place, 2) is None


def test_batch_of_a_compacted_log_needs_both_neighbours_and_their_epoch() -> None:
    data, spans, place = segment()
    data[spans[1][0] + 70] ^= 1
    data[spans[4][0] + 15] ^= 1  # its leader epoch

    def at(offset: int) -> bool:
        return find_isolated(bytes(data), place, offset, may_have_holes=True) is not None

    assert [at(each) for each in range(6)] == [False, False, False, False, False, False]
    data[spans[4][0] + 15] ^= 1
    assert [at(each) for each in range(6)] == [False, False, False, True, True, True]


def test_sectors_that_cannot_be_read_are_zeros() -> None:
    files = MemoryFiles()
    file = files.open("a", create=True)
    file.write_at_end((b"x" * 4 * SECTOR_BYTES,))
    files.names["a"].unreadable.add(SECTOR_BYTES)

    data = read_around(file, 0, 4 * SECTOR_BYTES)

    assert data == b"x" * SECTOR_BYTES + bytes(SECTOR_BYTES) + b"x" * 2 * SECTOR_BYTES
