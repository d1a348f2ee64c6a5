"""A follower's connection to one leader: what `host/peers/replicator.py` does with sockets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from josefine_broker.engine.partition.replica_fetch import ReplicaFetcher
from josefine_broker.engine.replicas.following import hear
from josefine_broker.engine.replicas.following_next import NextBatches, next_batches
from josefine_broker.wire.codec import decode_response, encode_request
from josefine_broker.wire.fetch import FetchRequest
from josefine_broker.wire.replica_frames import (
    RepeatedRequest,
    decode_replica_response,
    encode_replica_request,
)
from tests.simulation.cluster.network import Connection

if TYPE_CHECKING:
    from tests.simulation.cluster.process import Process

__all__ = ["Link"]

FETCH = 1
VERSION = 18
CLIENT_ID = "replica"
ANSWER_SLACK_MS = 700
"""An answer may come this much later than the wait that was asked for; else the connection is
given up."""
BACKOFF_MIN_MS, BACKOFF_MAX_MS = 30, 300


class Link:
    """One per leader that this process copies something from."""

    def __init__(self, process: Process, fetcher: ReplicaFetcher) -> None:
        self._process = process
        self._fetcher = fetcher
        self._connection: Connection | None = None
        self._heard_ms = 0
        self._next_try_ms = 0
        self._backoff_ms = BACKOFF_MIN_MS
        self._wake_ms: int | None = None
        self._asked: tuple[int, FetchRequest, RepeatedRequest] | None = None
        """The last request, if it was plain."""
        self._rounds: NextBatches | None = None

    def pump(self) -> None:
        """Send what there is to send; plan the next look."""
        process, fetcher = self._process, self._fetcher
        if not len(fetcher):
            self._disconnect()
            return
        now_ms = process.clock.monotonic_ms()
        if self._connection is None:
            if now_ms < self._next_try_ms:
                self._arm(self._next_try_ms)
                return
            self._connection = process.dial(self, fetcher.leader_id)
            self._heard_ms = now_ms
        timeout_ms = process.ctx.settings.replica_fetch.wait_ms + ANSWER_SLACK_MS
        if now_ms - self._heard_ms > timeout_ms:
            self.broken(self._connection)
            return
        while fetcher.wants_request(now_ms):
            number, request = fetcher.request(now_ms, process.ctx.broker_epoch)
            frame = encode_replica_request(VERSION, number, CLIENT_ID, request)
            self._asked = self._rounds = None
            if frame is None:
                frame = b"".join(encode_request(FETCH, VERSION, number, CLIENT_ID, request))
            elif request.topics and request.session_id:
                self._asked = number, request, RepeatedRequest(memoryview(frame)[4:])
            self._connection.send(frame)
        due_ms = self._heard_ms + timeout_ms + 1
        wake_ms = fetcher.wake_at_ms()
        self._arm(due_ms if wake_ms is None else min(due_ms, max(wake_ms, now_ms + 1)))

    def answered(self, connection: Connection, frame: bytes) -> None:
        if connection is not self._connection:
            return
        process = self._process
        view = memoryview(bytearray(frame))[4:]
        process.event(lambda: self._take(connection, view))

    def _take(self, connection: Connection, view: memoryview) -> None:
        if not self._goes_on(connection, view):
            self._hear(view)

    def _goes_on(self, connection: Connection, view: memoryview) -> bool:
        """As `replicator._Link`, but not where turns take no time (see `server.Server`)."""
        process = self._process
        if self._asked is None or not process.world.turn_ms:
            return False
        number, request, repeated = self._asked
        if number != int.from_bytes(view[:4]):
            return False
        if self._rounds is None:
            self._rounds = next_batches(process.ctx, self._fetcher, number, request)
        taken = None if self._rounds is None else self._rounds.take(number, view)
        if self._rounds is None or taken is None:
            return False
        self._asked = taken[0], request, repeated
        connection.send(repeated.frame(*taken))
        self._rounds.finish()
        self._heard()
        process.world.met["follower asked for the next batch at once"] += 1
        return True

    def _heard(self) -> None:
        process = self._process
        self._heard_ms = process.clock.monotonic_ms()
        self._backoff_ms = BACKOFF_MIN_MS
        process.touches_links = True

    def _hear(self, view: memoryview) -> None:
        process = self._process
        found = decode_replica_response(VERSION, view)
        number, response = found or decode_response(FETCH, VERSION, view)
        process.world.met["plain answer to a follower"] += found is not None
        self._heard()
        hear(process.ctx, self._fetcher, number, response)

    def broken(self, connection: Connection) -> None:
        if connection is not self._connection:
            return
        self._disconnect()
        self._fetcher.leader_lost(self._process.clock.monotonic_ms())
        self._next_try_ms = self._process.clock.monotonic_ms() + self._backoff_ms
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)
        process = self._process
        process.after_ms(process.clock.delay_ms(self._next_try_ms), self._touch)

    def _touch(self) -> None:
        self._process.touches_links = True

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._fetcher.disconnected()
            connection.close()

    def _arm(self, clock_ms: int) -> None:
        if self._wake_ms is not None and self._wake_ms <= clock_ms:
            return
        self._wake_ms = clock_ms
        process = self._process
        process.after_ms(process.clock.delay_ms(clock_ms), lambda: self._wake(clock_ms))

    def _wake(self, clock_ms: int) -> None:
        if self._wake_ms == clock_ms:
            self._wake_ms = None
            self._touch()

    def end(self) -> None:
        """The process is gone; what it had sent may still arrive."""
        if self._connection is not None:
            self._connection.close()
