"""A limit of the machine passes: whatever met it, a write or an open, every log takes records again
once there is room, or a file handle."""

import errno
from random import Random
from uuid import UUID

import pytest

from josefine_broker.base.errors import KafkaError
from josefine_broker.base.ids import TopicId, TopicPartition
from josefine_broker.engine.metadata.log_config import LogConfig
from josefine_broker.host.disk.flusher import Job
from josefine_broker.host.log.log import PartitionLog
from josefine_broker.host.log.log_manager import LogManager
from tests.simulation.memory_files import MemoryFiles
from tests.unit.josefine_broker.host.log.support import NOW_MS, append, open_in, read_all

CONFIGS = (
    LogConfig(flush_messages=1, segment_records=3, retention_ms=1),
    LogConfig(flush_ms=10, segment_records=3, retention_ms=1),
    LogConfig(segment_records=3, retention_ms=1),
)


class Life:
    """Three logs of one broker through all that they do; what a limit refuses is not done."""

    def __init__(self, full_at: int | None, full_for: int, code: int = errno.ENOSPC) -> None:
        self.files = MemoryFiles()
        if code in (errno.ENOSPC, errno.EDQUOT):
            self.files.full_at, self.files.full_errno = full_at, code
        else:
            self.files.no_handle_at, self.files.no_handle_errno = full_at, code
        self._full_for = full_for
        self.refused = self.failed = 0
        self._jobs: list[Job] = []
        self.manager = LogManager(self.files, schedule=self._jobs.append)
        self.kept: dict[int, list[tuple[int, bytes]]] = {}
        """By log, what it must have."""
        self.logs = [self._open(n) for n in range(len(CONFIGS))]
        self._live()

    def _open(self, number: int) -> PartitionLog:
        tp, topic_id = TopicPartition("t", number), TopicId(UUID(int=number + 1))
        log = open_in(self.manager, tp, topic_id, CONFIGS[number])
        log.snapshot_source = lambda: b"producers"
        self.kept[number] = []
        return log

    def _live(self) -> None:
        for round_ in range(4):
            for number, log in enumerate(self.logs):
                for n in range(5):
                    self._append(number, b"%d %d" % (round_, n))
                self._try(lambda log=log: log.flush_if_due(NOW_MS + 1_000))
                if round_ == 1:
                    self._try(lambda log=log: log.delete_before(min(4, log.log_end_offset)))
                    self._forget(number)
                if round_ == 2:
                    end = log.log_end_offset
                    self._try(lambda log=log, end=end: log.truncate_to(max(0, end - 2)))
                    self._forget(number)
                    self._try(lambda log=log: log.apply_retention(NOW_MS + 10, 6))
                    self._forget(number)
                if round_ == 3:
                    self._try(lambda log=log, offset=40 - number: log.restart_at(offset))
                    self._forget(number)
                    self._append(number, b"behind")
            self._work()

    def _append(self, number: int, value: bytes) -> None:
        log = self.logs[number]
        end = log.log_end_offset
        self.files.evict()
        try:
            assert append(log, [value]) == end
        except KafkaError:
            self._note_refusal()
            assert log.log_end_offset == end
        else:
            self.kept[number].append((end, value))

    def _try(self, action: Job) -> None:
        self.files.evict()
        try:
            action()
        except (KafkaError, OSError):
            self._note_refusal()

    def _note_refusal(self) -> None:
        self.refused += 1
        if self.refused >= self._full_for:
            self.files.full_at = self.files.no_handle_at = None

    def _work(self) -> None:
        jobs, self._jobs[:] = list(self._jobs), []
        for job in jobs:
            self._try(job)

    def _forget(self, number: int) -> None:
        log = self.logs[number]
        start, end = log.log_start_offset, log.log_end_offset
        self.kept[number] = [each for each in self.kept[number] if start <= each[0] < end]

    def check(self) -> None:
        """There is room again."""
        self.files.full_at = self.files.no_handle_at = None
        self._work()
        for number, log in enumerate(self.logs):
            if "open files" in log.failure:  # in the middle of a cut: the broker is restarted
                assert any(what in log.failure for what in ("truncation", "restart"))
                self.failed += 1
                kept = self.kept[number]
                self.manager = LogManager(self.files, schedule=self._jobs.append)
                log = self.logs[number] = self._open(number)
                ends = log.log_start_offset, log.log_end_offset
                self.kept[number] = [each for each in kept if ends[0] <= each[0] < ends[1]]
            assert log.failure == ""
            self._append(number, b"again")
            assert self.kept[number][-1][1] == b"again"
            assert read_all(log) == self.kept[number]
        self._work()
        for log in self.logs:
            log.flush()
        self._check(LogManager(self.files.copy()))
        self._check(LogManager(self.files.power_loss(Random(self.files.growths))))

    def _check(self, again: LogManager) -> None:
        for number in range(len(CONFIGS)):
            tp, topic_id = TopicPartition("t", number), TopicId(UUID(int=number + 1))
            log = open_in(again, tp, topic_id, CONFIGS[number])
            assert read_all(log) == self.kept[number]


@pytest.mark.parametrize("full_for", [1, 2, 10**9])
def test_every_log_takes_records_again_whichever_write_found_no_room(full_for: int) -> None:
    whole = Life(None, 0)
    whole.check()
    assert whole.files.growths > 100

    for full_at in range(whole.files.growths):
        life = Life(full_at, full_for)
        try:
            life.check()
        except BaseException as error:
            error.add_note(f"Life({full_at}, {full_for}).check()")
            raise


def test_every_log_takes_records_again_when_a_quota_allows_it() -> None:
    growths = Life(None, 0).files.growths
    for full_at in range(0, growths, 7):
        Life(full_at, 2, errno.EDQUOT).check()


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("none_for", [1, 2, 10**9])
def test_every_log_takes_records_again_whatever_found_no_file_handle(
    none_for: int, code: int
) -> None:
    """Every operation opens its files again, as when more are in use than may be open."""
    handles, opened, failed = Life(None, 0, code).files.handles, 45, 0
    assert handles > 300

    for no_handle_at in range(opened, handles, 5):
        life = Life(no_handle_at, none_for, code)
        try:
            life.check()
        except BaseException as error:
            error.add_note(f"Life({no_handle_at}, {none_for}, {code}).check()")
            raise
        failed += life.failed
    assert failed < 4, "a cut stops half done only if the last handle goes in the middle of it"


def test_scheduled_flush_that_found_no_room_is_made_when_there_is() -> None:
    """Without a record that comes after it."""
    files, jobs = MemoryFiles(), list[Job]()
    manager = LogManager(files, schedule=jobs.append)
    log = open_in(manager, TopicPartition("t", 0), TopicId(UUID(int=1)), CONFIGS[1])
    append(log, [b"a"])
    assert log.flush_if_due(NOW_MS + 10)
    files.full_at = files.growths
    with pytest.raises(OSError, match="no space left"):
        jobs.pop()()
    files.full_at = None

    assert log.flush_if_due(NOW_MS + 11)
    jobs.pop()()

    assert not log.flush_if_due(NOW_MS + 12)
    again = LogManager(files.power_loss(Random(1)))
    found = open_in(again, TopicPartition("t", 0), TopicId(UUID(int=1)), CONFIGS[1])
    assert read_all(found) == [(0, b"a")]
