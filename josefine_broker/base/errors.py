"""The exceptions of the broker, split by cause.

`KafkaError` is for the client to handle: it carries the Kafka error code for the wire.
`CorruptData` means damaged bytes. `Fatal` is a broken invariant of ours: it derives from
BaseException so that no loop swallows it; the state it guards must stop.
"""

from typing import Self

from josefine_broker.base.schemas import ErrorCode

__all__ = [
    "PRODUCED_UNREADABLE",
    "CorruptData",
    "ErrorCode",
    "ExpandsTooFarError",
    "Fatal",
    "KafkaError",
    "UnreadableBatchError",
]


class KafkaError(Exception):
    """A Kafka error with its code (kafka.apache.org/protocol#protocol_error_codes).

    >>> raise KafkaError(ErrorCode.unknown_topic_or_partition, "no topic 'orders'")
    """

    def __init__(self, code: ErrorCode, message: str = "") -> None:
        super().__init__(f"{code.name}: {message}" if message else code.name)
        self.code = code
        self.message = message

    def without_frames(self) -> Self:
        """This error, to be kept with the request that failed. Frames refer to it, and those of
        its raise to all that their callers have: only the collector would free them."""
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self


class StorageLimitError(KafkaError):
    """A limit of the machine keeps a log from taking a batch: space, a quota, file handles, memory.
    Nothing was lost, and it may pass."""


class CorruptData(Exception):
    """Bytes that fail their checksum, length or format; the message has the place and the
    reason."""


class ExpandsTooFarError(CorruptData):
    """Compressed records that would exceed the reader's size limit; nothing else is wrong."""


PRODUCED_UNREADABLE = "its checksum is right, so it was produced like this"
"""Part of each message about such a batch: of an error Spark gives its callers only the text."""


class UnreadableBatchError(CorruptData):
    """A batch with a valid checksum and unreadable records: it was produced like that, and the disk
    is not the cause. `end_offset` is where the next batch starts."""

    def __init__(self, offset: int, end_offset: int, cause: str) -> None:
        super().__init__(
            f"the batch with the offsets {offset} to {end_offset - 1} cannot be read: {cause}"
        )
        self.offset = offset
        self.end_offset = end_offset
        self.cause = cause


class Fatal(BaseException):
    """A broken invariant: the state it names must not be used or written again."""
