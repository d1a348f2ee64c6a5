"""Moves the fetches of `partition/replica_fetch.py` over sockets: one connection per leader that
has partitions copied here. Decides nothing.

Rules: everything runs on the event loop, driven by events: an answer, a change of the image, a
timer; nothing polls. An answer is handled, and the next request sent, in the turn of the loop that
has read it: acks=all waits for both. A connection that ends, or is silent for too long, is replaced
after a back-off with jitter, at the address that the image has then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from random import Random
from typing import Protocol
from uuid import UUID

from josefine_broker.base.errors import ErrorCode, Fatal, KafkaError
from josefine_broker.base.lasting import Lasting
from josefine_broker.base.ports import Clock
from josefine_broker.client.cluster import Address
from josefine_broker.client.io_asyncio_protocol import ProtocolConnection
from josefine_broker.client.io_tls import UNSECURED, Secured
from josefine_broker.engine.metadata.image import MetadataImage
from josefine_broker.engine.partition.replica_fetch import (
    FetchLimits,
    ReplicaFetcher,
    ReplicaFetchers,
)
from josefine_broker.engine.replicas.following_next import NextBatches
from josefine_broker.host.alarm import Alarm
from josefine_broker.wire.codec import decode_response, encode_request
from josefine_broker.wire.fetch import FetchRequest, FetchResponse, FetchTopic
from josefine_broker.wire.primitives import Buffer
from josefine_broker.wire.replica_frames import (
    RepeatedRequest,
    decode_replica_response,
    encode_replica_request,
)

FETCH = 1
CONNECT_TIMEOUT_MS = 3_000
ANSWER_SLACK_MS = 5_000
"""An answer may come this much later than the requested wait."""
BACKOFF_MIN_MS, BACKOFF_MAX_MS = 50, 1_000

log = logging.getLogger(__name__)


class ErrorCount(Protocol):
    """The broker's counters that are written here."""

    replication_errors: int


class Copied(Protocol):
    """The broker's replicas as far as they are read here."""

    @property
    def fetchers(self) -> ReplicaFetchers: ...

    @property
    def counters(self) -> ErrorCount: ...


class Following(Protocol):
    """The handlers' context as far as it is read here."""

    @property
    def broker_id(self) -> int: ...

    @property
    def broker_epoch(self) -> int: ...

    @property
    def image(self) -> MetadataImage: ...

    @property
    def hosted(self) -> Copied: ...


Hear = Callable[[ReplicaFetcher, int, FetchResponse], None]
"""`following.hear` with its context: handles the answer to a request, by number."""


NewRounds = Callable[[ReplicaFetcher, int, FetchRequest], NextBatches | None]
"""`following_next.next_batches` with its context."""


class Replicator:
    """Copies every partition that this broker follows. `stop` ends all of it."""

    def __init__(
        self,
        ctx: Following,
        hear: Hear,
        clock: Clock,
        rng: Random,
        config: FetchLimits,
        inter_broker_listener: str,
        on_fatal: Callable[[BaseException], None] | None = None,
        secured: Callable[[], Secured] = lambda: UNSECURED,
        new_rounds: NewRounds = lambda *_: None,
    ) -> None:
        """`on_fatal` is called for a broken invariant; without it, the event loop handles it.
        `secured` describes how to dial the listener that brokers use."""
        self.secured = secured
        self.new_rounds = new_rounds
        self.ctx = ctx
        self.hear = hear
        self.clock = clock
        self.rng = rng
        self.answer_timeout_ms = config.wait_ms + ANSWER_SLACK_MS
        self.listener = inter_broker_listener
        self.on_fatal = on_fatal
        self._links: dict[int, _Link] = {}
        self._stopped = False

    def image_changed(self) -> None:
        """Partitions may have been added, removed, or changed their leader."""
        if self._stopped:
            return
        for leader_id, fetcher in self.ctx.hosted.fetchers.by_leader.items():
            link = self._links.get(leader_id)
            if link is None:
                if not len(fetcher):
                    continue
                link = self._links[leader_id] = _Link(self, fetcher)
            link.pump()

    async def stop(self) -> None:
        """Close every connection; nothing is copied any more."""
        self._stopped = True
        links, self._links = list(self._links.values()), {}
        await asyncio.gather(*(link.stop() for link in links))

    def lag(self) -> Mapping[tuple[str, int], int]:
        """The number of its leader's committed records that each followed partition lacks."""
        names = self.ctx.image.topic_names
        return {
            (names[copy.key[0]], copy.key[1]): copy.lag
            for fetcher in self.ctx.hosted.fetchers.by_leader.values()
            for copy in fetcher
            if copy.key[0] in names
        }

    @property
    def connection_count(self) -> int:
        return sum(link.is_connected for link in self._links.values())

    def address_of(self, broker_id: int, listener: str | None = None) -> Address | None:
        """Where brokers dial this one according to the image, at `listener` if that is named."""
        broker = self.ctx.image.brokers.get(broker_id)
        if broker is None:
            return None
        endpoint = broker.endpoint(listener or self.listener)
        if endpoint is None and listener is None and broker.endpoints:
            endpoint = broker.endpoints[0]
        return None if endpoint is None else Address(endpoint.host, endpoint.port)


class _Asked:
    """One request under way; see `FrameListener`. Without a Struct for its bytes, the codec's.
    Where rounds of one partition follow each other, it is used again for each of them."""

    __slots__ = ("_link", "connection", "next", "number", "repeated", "request", "rounds")

    def __init__(
        self, link: _Link, connection: ProtocolConnection, number: int, request: FetchRequest
    ) -> None:
        self._link = link
        self.connection = connection
        self.number = number
        self.request = request
        """The first one."""
        self.repeated: RepeatedRequest | None = None
        """What it has in common with those of the next rounds."""
        self.rounds: NextBatches | None = None
        self.next: tuple[int, int] | None = None
        """Session epoch and offset of the request of such a round."""

    def encode(self, version: int, correlation_id: int, client_id: str) -> list[Buffer]:
        if self.repeated is not None and self.next is not None:
            return [self.repeated.frame(correlation_id, *self.next)]
        request = self.request
        frame = encode_replica_request(version, correlation_id, client_id, request)
        if frame is None:
            return encode_request(FETCH, version, correlation_id, client_id, request)
        if request.topics and self._link.is_named_again(request.topics[0]):
            self.repeated = RepeatedRequest(memoryview(frame)[4:])
        return [frame]

    def answered(self, version: int, frame: memoryview) -> None:
        if self.repeated is not None and self._link.goes_on(self, frame):
            return
        found = decode_replica_response(version, frame)
        _, response = found or decode_response(FETCH, version, frame)
        self._link.answered(self.connection, self.number, response)

    def lost(self, error: KafkaError) -> None:
        self._link.ended(self.connection, error)


class _Link:
    """The connection to one leader."""

    def __init__(self, owner: Replicator, fetcher: ReplicaFetcher) -> None:
        self._owner = owner
        self._fetcher = fetcher
        self._connection: ProtocolConnection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._alarm = Alarm(owner.clock, self.pump)
        self._next_try_ms = 0
        self._backoff_ms = BACKOFF_MIN_MS
        self._heard_ms = 0
        self._named: tuple[UUID | None, int] | None = None
        """By the last plain request that was sent from `pump`."""
        self._trouble = Lasting(_tell, "lost a leader", leader=fetcher.leader_id)
        self._stopped = False

    @property
    def is_connected(self) -> bool:
        return self._connection is not None

    async def stop(self) -> None:
        self._stopped = True
        self._disconnect()
        if self._connecting is not None:
            self._connecting.cancel()
            await asyncio.gather(self._connecting, return_exceptions=True)

    def pump(self) -> None:
        """Do all work that is possible now, and schedule the rest."""
        if self._stopped:
            return
        now_ms = self._owner.clock.monotonic_ms()
        fetcher = self._fetcher
        if not len(fetcher):
            self._disconnect()
            self._trouble.end(now_ms, "follows no more")
            return
        if self._connection is None:
            self._connect(now_ms)
            return
        if now_ms - self._heard_ms > self._owner.answer_timeout_ms:
            self._lost("no answer")
            return
        try:
            while fetcher.wants_request(now_ms):
                number, request = fetcher.request(now_ms, self._owner.ctx.broker_epoch)
                asked = _Asked(self, self._connection, number, request)
                self._connection.ask(FETCH, asked.encode, asked)
        except KafkaError as error:
            self._lost(str(error))
            return
        due_ms = self._heard_ms + self._owner.answer_timeout_ms + 1
        wake_ms = fetcher.wake_at_ms()
        if wake_ms is not None and wake_ms < due_ms:
            due_ms = wake_ms
        # An alarm that rings too early looks again: cheaper than to set a timer for each answer.
        if self._alarm.at_ms is None or due_ms < self._alarm.at_ms:
            self._alarm.set(due_ms)

    def ended(self, connection: ProtocolConnection, error: KafkaError) -> None:
        """The connection is gone, with a request that has no answer."""
        if connection is self._connection and not self._stopped:
            self._lost(str(error))

    def answered(
        self, connection: ProtocolConnection, number: int, response: FetchResponse
    ) -> None:
        """Handle the answer to request `number`, and send the next one."""
        if connection is not self._connection or self._stopped:
            return
        self._heard()
        try:
            self._owner.hear(self._fetcher, number, response)
        except Fatal as fatal:
            self._ends_with(fatal)
            return
        self.pump()

    def goes_on(self, asked: _Asked, frame: memoryview) -> bool:
        """Take the next batch of the only partition, ask for the one after it, and then do the rest
        of the work. False: nothing was done."""
        if asked.connection is not self._connection or self._stopped:
            return False
        try:
            rounds = asked.rounds
            if rounds is None:
                rounds = self._owner.new_rounds(self._fetcher, asked.number, asked.request)
                asked.rounds = rounds
            taken = None if rounds is None else rounds.take(asked.number, frame)
            if rounds is None or taken is None:
                return False
            asked.number, epoch, offset = taken
            asked.next = epoch, offset
            try:
                asked.connection.ask(FETCH, asked.encode, asked)
            finally:
                rounds.finish()
        except KafkaError as error:
            self._lost(str(error))
            return True
        except Fatal as fatal:
            self._ends_with(fatal)
            return True
        self._heard()
        if self._alarm.at_ms is None:
            self.pump()
        return True

    def is_named_again(self, topic: FetchTopic) -> bool:
        """Whether the request before has named the same partition: not worth it otherwise."""
        before, self._named = self._named, (topic.topic_id, topic.partitions[0].index)
        return self._named == before

    def _heard(self) -> None:
        self._heard_ms = self._owner.clock.monotonic_ms()
        self._backoff_ms = BACKOFF_MIN_MS
        if self._trouble.lasts:
            self._trouble.end(self._heard_ms, "follows again")

    def _ends_with(self, fatal: Fatal) -> None:
        if self._owner.on_fatal is None:
            raise fatal
        self._owner.on_fatal(fatal)

    def _connect(self, now_ms: int) -> None:
        if self._connecting is not None:
            return
        if now_ms < self._next_try_ms:
            self._alarm.set(self._next_try_ms)
            return
        self._connecting = asyncio.get_running_loop().create_task(self._dial())
        self._connecting.add_done_callback(self._dialled)

    async def _dial(self) -> None:
        leader_id = self._fetcher.leader_id
        address = self._owner.address_of(leader_id)
        if address is None:
            raise KafkaError(ErrorCode.network_exception, f"broker {leader_id} has no address")
        client_id = f"replica-{self._owner.ctx.broker_id}"
        self._connection = await asyncio.wait_for(
            ProtocolConnection.open(address, client_id, self._owner.secured()),
            CONNECT_TIMEOUT_MS / 1_000,
        )

    def _dialled(self, task: asyncio.Task[None]) -> None:
        self._connecting = None
        if task.cancelled() or self._stopped:
            self._disconnect()
            return
        error = task.exception()
        if error is None:
            self._heard_ms = self._owner.clock.monotonic_ms()
            if (
                not self._trouble.lasts
            ):  # otherwise an answer ends it: a connection alone proves little
                log.info("follows", extra={"leader": self._fetcher.leader_id})
            self.pump()
        elif isinstance(error, OSError | KafkaError | TimeoutError):
            self._lost(str(error) or type(error).__name__)
        else:
            raise error

    def _lost(self, reason: str) -> None:
        """Retry with growing delays. Each failed dial counts too: nothing is copied meanwhile."""
        self._disconnect()
        self._owner.ctx.hosted.counters.replication_errors += 1
        now_ms = self._owner.clock.monotonic_ms()
        self._fetcher.leader_lost(now_ms)
        wait_ms = self._backoff_ms // 2 + self._owner.rng.randint(0, self._backoff_ms // 2)
        self._backoff_ms = min(2 * self._backoff_ms, BACKOFF_MAX_MS)
        self._next_try_ms = now_ms + wait_ms
        self._trouble.goes_on(now_ms, reason)
        self._alarm.set(self._next_try_ms)

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        self._alarm.set(None)
        if connection is not None:
            self._fetcher.disconnected()
            connection.close()


def _tell(message: str, **fields: object) -> None:
    log.info(message, extra=fields)
