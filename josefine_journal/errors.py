"""The errors of the journal."""


class JournalError(Exception):
    """Base of the journal's errors; by itself, bytes of a record that violate the encoding. The
    message names the place in them; the record's reader adds topic, partition and offset."""


class ConcurrentWriter(JournalError):
    """An append was refused: it expected another last sequence number than the journal had."""

    def __init__(self, journal: str, *, expected: int, found: int) -> None:
        super().__init__(
            f"{journal}: sequence number {expected} was expected to be the last, {found} is: "
            "another writer was faster"
        )
        self.expected = expected
        self.found = found


class RecordsGone(JournalError):
    """The topic no longer has a record at an offset: retention or a deletion removed it."""


LEFT = "left the topic before they were replicated"
MISSING = (
    "are missing between records that are there (the topic was compacted, or its log is damaged)"
)


class RecordsLost(JournalError):
    """Records left the topic and were never stored: they cannot be read any more."""

    def __init__(
        self, topic: str, partition: int, *, begin: int, end: int, reason: str = LEFT
    ) -> None:
        """`end` is exclusive."""
        super().__init__(
            f"partition {topic}-{partition}: the records from {begin} to {end - 1} {reason}: "
            "they are lost"
        )
        self.partition = partition
        self.begin = begin
        self.end = end


class TopicWidened(JournalError):
    """The topic has another partition count than its journals were written with, so that ids map to
    the wrong partitions."""

    def __init__(self, topic: str, count: int, *, recorded: int | None, where: str) -> None:
        written = "other numbers of partitions" if recorded is None else f"{recorded}"
        super().__init__(
            f"topic '{topic}' has {count} partitions, but its journals were written over {written} "
            f"({where}): most ids would be looked for in the wrong partition; move them with "
            f"'josefine journal move {topic}'"
        )
        self.topic = topic
        self.count = count
        self.recorded = recorded


class JournalMoved(JournalError):
    """The journal is in another partition since the topic's journals were moved."""

    def __init__(self, topic: str, key: str, *, count: int, partition: int) -> None:
        super().__init__(
            f"journal '{key}' of topic '{topic}' was moved to partition {partition} when the topic "
            f"got {count} partitions: open the topic again (restart this process)"
        )


class TopicCompacted(JournalError):
    """The topic's cleanup policy keeps only the last record of each id."""

    def __init__(self, topic: str, policy: str) -> None:
        super().__init__(
            f"topic '{topic}' has cleanup.policy={policy}: compaction keeps the last record of "
            f"each journal and deletes its other events; set it back with 'josefine topics alter "
            f"{topic} --config cleanup.policy=delete'"
        )


class DataIntegrityViolated(JournalError):
    """The store has two different events of one sequence number."""

    def __init__(self, seq_nr: int, *, record: str, later: str) -> None:
        super().__init__(
            f"Data integrity violated: sequence number {seq_nr} is at {record} and, with another "
            f"event, at {later}"
        )
        self.seq_nr = seq_nr


class ReadersBusy(JournalError):
    """No reader of topics was free in time."""

    def __init__(self, readers_max: int, wait_ms: int) -> None:
        super().__init__(
            f"no reader was free within {wait_ms / 1_000:g} s: all {readers_max} are at work; read "
            "fewer journals at a time, or give Readers a larger multiplier"
        )


class StoreError(JournalError):
    """The store cannot be used: it is another kind of table, of another topic, newer than this
    code, or damaged."""


class Overtaken(JournalError):
    """Another replicator committed first: nothing of this commit was stored."""
