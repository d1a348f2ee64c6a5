"""The connection to the archive reader of this machine (`josefine archive serve`).

Rules: a line of JSON each way, followed by the answer's bytes; one request at a time per
connection, a few idle ones are kept. The reader may have closed an idle one: then a new one is
opened. Any failure is an answer with an error.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable

from josefine_broker.base.errors import ErrorCode, KafkaError
from josefine_broker.base.ports import Clock
from josefine_broker.engine.replicas.archive_reads import (
    ArchiveAnswer,
    ArchiveQuestion,
    EpochQuestion,
    TimeQuestion,
)

HOST = "127.0.0.1"
IDLE_MAX = 8
TIME_S_MAX = 10.0
"""Of a search by time, which holds up the broker's other searches."""
LINE_BYTES_MAX = 1 << 16
DATA_BYTES_MAX = 64 << 20
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ArchiveClient:
    """`ask` implements `archive_reads.Ask`. `stop` ends the requests in flight."""

    def __init__(self, port: int, clock: Clock) -> None:
        self._port = port
        self._clock = clock
        self._idle: list[Streams] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def ask(
        self,
        question: ArchiveQuestion,
        deadline_ms: int,
        on_answer: Callable[[ArchiveAnswer], None],
    ) -> None:
        """See `archive_reads.Ask`."""

        async def asked() -> None:
            on_answer(await self._ask(question, deadline_ms))

        task = asyncio.get_running_loop().create_task(asked(), name="archive")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def ask_time(self, question: TimeQuestion) -> tuple[int, int] | None:
        """Implements `archive_reads.AskTime`: on a worker's thread. Raises KafkaError."""
        offset, timestamp_ms = self._asked(question, "timestamp")
        return None if offset < 0 else (offset, timestamp_ms)

    def ask_epoch(self, question: EpochQuestion) -> tuple[int, int] | None:
        """Implements `archive_reads.AskEpoch`: on a worker's thread. Raises KafkaError."""
        offset, epoch = self._asked(question, "epoch")
        return None if offset < 0 else (epoch, offset)

    def _asked(self, question: TimeQuestion | EpochQuestion, name: str) -> tuple[int, int]:
        """The offset of an answer and its number of this name, by a connection of its own."""
        asked = {**question._asdict(), "topic_id": str(question.topic_id)}
        try:
            with socket.create_connection((HOST, self._port), TIME_S_MAX) as stream:
                stream.sendall(json.dumps(asked).encode() + b"\n")
                with stream.makefile("rb") as answers:
                    found = json.loads(answers.readline(LINE_BYTES_MAX))
            if found["error"]:
                raise KafkaError(ErrorCode.kafka_storage_error, str(found["error"]))
            return int(found["offset"]), int(found[name])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise KafkaError(ErrorCode.kafka_storage_error, self._silent(error)) from error

    def _silent(self, error: Exception) -> str:
        what = f"the archive reader at {HOST}:{self._port} does not answer ({error!r})"
        return f"{what}: start `josefine archive serve`"

    async def stop(self) -> None:
        """End the requests, and close the connections."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()

    async def _ask(self, question: ArchiveQuestion, deadline_ms: int) -> ArchiveAnswer:
        left_ms = max(0, deadline_ms - self._clock.monotonic_ms())
        streams: Streams | None = None
        try:
            async with asyncio.timeout(left_ms / 1_000):
                found: ArchiveAnswer | None = None
                while found is None:
                    is_new = not self._idle
                    streams = await self._connected() if is_new else self._idle.pop()
                    found = await _answered(streams, question, is_new=is_new)
        except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
            if streams is not None:
                streams[1].close()
            return ArchiveAnswer(b"", -1, -1, self._silent(error))
        assert streams is not None, "it answered"
        if len(self._idle) < IDLE_MAX:
            self._idle.append(streams)
        else:
            streams[1].close()
        return found

    async def _connected(self) -> Streams:
        return await asyncio.open_connection(HOST, self._port, limit=LINE_BYTES_MAX)


async def _answered(
    streams: Streams, question: ArchiveQuestion, *, is_new: bool
) -> ArchiveAnswer | None:
    """None: the reader has closed a connection that was idle. A question changes nothing, so it may
    be asked twice. Raises as `_exchanged` does."""
    try:
        return await _exchanged(streams, question)
    except (ConnectionError, EOFError):
        if is_new:
            raise
        streams[1].close()
        return None


async def _exchanged(streams: Streams, question: ArchiveQuestion) -> ArchiveAnswer:
    """Raises OSError, ValueError, KeyError, TypeError, EOFError for what is no answer."""
    reader, writer = streams
    asked = {**question._asdict(), "topic_id": str(question.topic_id)}
    writer.write(json.dumps(asked).encode() + b"\n")
    await writer.drain()
    line = await reader.readline()
    if not line:
        raise EOFError("it closed the connection")
    found = json.loads(line)
    size = int(found["size"])
    if not 0 <= size <= DATA_BYTES_MAX:
        raise ValueError(f"{size} bytes of records")
    data = await reader.readexactly(size)
    return ArchiveAnswer(data, int(found["next"]), int(found["start"]), str(found["error"]))
