"""What a repair can still use of a damaged segment: never a batch whose place nobody confirms."""

from __future__ import annotations

from josefine_broker.host.log.damaged_segment import DamagedSegment
from josefine_broker.records.batch import BatchHeader, parse_header
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import log_file
from tests.unit.josefine_broker.host.log.test_segment_rebuild import filled, first_file, spans


def opened(files: MemoryFiles, log: object) -> DamagedSegment:
    made = DamagedSegment(files, log._segments[0], has_holes=False)  # type: ignore[attr-defined]
    made.open()
    return made


def base_of(made: DamagedSegment, offset: int) -> int | None:
    def fits(header: BatchHeader) -> bool:
        return header.base_offset == offset

    batch = made.batch_at(offset, fits)
    return None if batch is None else parse_header(batch).base_offset


def test_missing_file_has_no_batches() -> None:
    files = MemoryFiles()
    log = filled(files)
    files.names.pop(log_file())

    made = opened(files, log)

    assert base_of(made, 0) is None
    assert made.batch_over(0) is None
    assert made.next_header(0) is None
    made.close()


def test_batches_after_damage_are_found_where_the_next_one_confirms_them() -> None:
    files = MemoryFiles()
    log = filled(files)
    data, places = first_file(files), spans(files)
    starts = [parse_header(bytes(data), position).base_offset for position, _ in places]
    data[places[0][0] + 16] ^= 1  # the first batch
    data[places[3][0] + 2] ^= 1  # the offset that would confirm the third one

    made = opened(files, log)

    found = [base_of(made, start) for start in starts[:3]]
    assert found == [None, starts[1], None]
    header = made.next_header(starts[0])
    assert header is not None
    assert header.base_offset == starts[1]
    made.close()
