"""What the log's tests share: batches with known content, and a log read back whole."""

from collections.abc import Callable, Sequence

from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.base.ports import Files
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job, run_now
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from josefine_broker.host.log.lookup import FoundRecord
from josefine_broker.records.batch import iter_batches, parse_header, stamp
from josefine_broker.records.builder import Record, build_batch
from josefine_broker.records.reader import read_records

DIRECTORY = "orders-0"
NOW_MS = 1_700_000_000_000


def open_log(
    files: Files,
    config: LogConfig | None = None,
    *,
    clean: bool = False,
    schedule: Callable[[Job], None] = run_now,
) -> PartitionLog:
    config = config or LogConfig()
    return PartitionLog.open(files, DIRECTORY, config, NOW_MS, clean, schedule=schedule)


def open_in(
    manager: LogManager,
    topic_partition: TopicPartition,
    topic_id: TopicId,
    config: LogConfig,
    now_ms: int = NOW_MS,
) -> PartitionLog:
    """The partition's log as one of the manager's open logs."""
    log = manager.recover_log(topic_partition, topic_id, config, now_ms)
    manager.adopt(topic_partition, log)
    return log


def append(
    log: PartitionLog,
    values: Sequence[bytes],
    *,
    timestamps_ms: Sequence[int] | None = None,
    compression: int = 0,
    leader_epoch: int = 0,
    now_ms: int = NOW_MS,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> int:
    """Append one batch of `values`; its base offset."""
    times = timestamps_ms or [now_ms] * len(values)
    records = [Record(b"key", value, (), time) for value, time in zip(values, times, strict=True)]
    batch = build_batch(
        records,
        compression=compression,
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=base_sequence,
    )
    header = parse_header(batch)
    stamp(batch, 0, log.log_end_offset, leader_epoch)
    return log.append(memoryview(batch), header, now_ms)


def read_all(log: PartitionLog, *, bytes_max: int = 64 * 1024) -> list[tuple[int, bytes]]:
    """(offset, value) of every record, read as a consumer reads: fetch after fetch."""
    found = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        buffers = log.read(offset, bytes_max)
        assert buffers, f"nothing at offset {offset} of {log.log_end_offset}"
        for buffer in buffers:
            for pos, header in iter_batches(buffer):
                for record in read_records(buffer[pos : pos + header.size_bytes]):
                    if record.offset >= offset:
                        assert record.value is not None
                        found.append((record.offset, record.value))
                offset = header.end_offset
    return found


def find_by_timestamp(log: PartitionLog, timestamp_ms: int) -> FoundRecord | None:
    search = log.timestamp_search(timestamp_ms)
    return None if search is None else search.run(lambda: None)


def max_timestamp(log: PartitionLog) -> tuple[int, int] | None:
    """(offset, timestamp_ms) of the newest record."""
    search = log.timestamp_search(None)
    found = None if search is None else search.run(lambda: None)
    return None if found is None else found[:2]


def log_file(name: str = "00000000000000000000.log") -> str:
    return f"{DIRECTORY}/{name}"
