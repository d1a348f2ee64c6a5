"""The reader of a coordinator partition in which the last record of each key counts."""

from collections.abc import Callable
from typing import Generic, TypeVar

from josefine_broker.records.batch import BatchHeader
from josefine_broker.records.reader import read_records

RECORD_BYTES_MAX = 16 * 1024 * 1024

Key = TypeVar("Key")
Value = TypeVar("Value")


class LastRecords(Generic[Key, Value]):
    """A `Reader` of `engine/coordinators/loading.py`. A key decoded to None is passed over."""

    def __init__(
        self,
        decode_key: Callable[[bytes], Key | None],
        decode_value: Callable[[bytes], Value],
        hand_over: Callable[[dict[Key, Value]], None],
    ) -> None:
        self._decode_key = decode_key
        self._decode_value = decode_value
        self._hand_over = hand_over
        self._found: dict[Key, Value] = {}

    def begin(self) -> None:
        self._found = {}

    def take(self, header: BatchHeader, batch: memoryview) -> None:
        if header.is_control:
            return
        for record in read_records(batch, bytes_max=RECORD_BYTES_MAX):
            key = None if record.key is None else self._decode_key(record.key)
            if key is None:
                continue
            if record.value is None:
                self._found.pop(key, None)
            else:
                self._found[key] = self._decode_value(record.value)

    def finish(self) -> None:
        self._hand_over(self._found)
